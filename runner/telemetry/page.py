"""A server's metrics page while a load runs: fetched in the cheapest way, kept as bytes, parsed afterwards.

The thread that fetches shares the interpreter with the client's event loop where the client has one worker, so nothing
here is parsed, and waiting and compressing are done in calls that let go of the interpreter.
"""

from __future__ import annotations

import http.client
import ssl
import zlib
from urllib.parse import urlsplit

from ..engines.probe import Endpoint

#: how long a page may take to begin, and between two of its pieces, s
PAGE_WITHIN_S = 5.0
#: a page beyond this is no metrics page, bytes
PAGE_AT_MOST = 32 * 1024 * 1024


class PageError(Exception):
    """The page was not had: no 200, or no end."""


class Page:
    """The metrics page of one server, over a kept-alive connection that is made anew when it was lost."""

    def __init__(self, endpoint: Endpoint) -> None:
        if endpoint.metrics is None:
            raise ValueError("the server has no metrics page")
        parts = urlsplit(endpoint.metrics)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {**endpoint.headers, "accept": "text/plain"}
        host = parts.hostname or ""
        if parts.scheme == "https":
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=PAGE_WITHIN_S, context=ssl.create_default_context()
            )
        else:
            self._http = http.client.HTTPConnection(host, parts.port, timeout=PAGE_WITHIN_S)

    def fetch(self) -> bytes:
        """The page as it is now, compressed. Raises PageError, OSError or HTTPException where there is none."""
        try:
            self._http.request("GET", self._path, headers=self._headers)
            reply = self._http.getresponse()
            body = reply.read(PAGE_AT_MOST)
        except (OSError, http.client.HTTPException):
            self._http.close()
            raise
        if reply.status != 200 or not reply.isclosed():
            self._http.close()
            raise PageError(f"HTTP {reply.status}")
        return zlib.compress(body, 1)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def text_of(page: bytes) -> str:
    """The text of a page that was kept."""
    return zlib.decompress(page).decode(errors="replace")
