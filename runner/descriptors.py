"""File descriptors: a client of a thousand streams has a thousand of them, and shells usually grant 1,024."""

from __future__ import annotations

import contextlib


def allow_many_descriptors() -> None:
    """Raise this process's soft limit to the hard one, where there is such a limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
