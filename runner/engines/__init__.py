"""Systems under test: how each is started, asked and stopped."""
