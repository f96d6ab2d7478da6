from .bundles import MS
def test_x(): assert MS
