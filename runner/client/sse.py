"""Server-sent events, as the standard parses them (WHATWG HTML, "Server-sent events"). Pure.

Lines end with LF, CRLF or CR, wherever the stream was cut; a line that starts with a colon is a comment; data lines of
one event are joined with LF; an event ends with an empty line; what is unfinished when the stream ends is dropped.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Feed it bytes in any cut; it returns the data of each event that they complete."""

    def __init__(self) -> None:
        #: pieces of the line that is not complete yet: joined once, or a long line in many pieces takes time squared
        self._parts: list[bytes] = []
        self._data: list[bytes] = []
        self._skip_lf = False
        self._start = True

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that end within `piece`, in order. Broken UTF-8 becomes U+FFFD."""
        events = []
        for line in self._lines(piece):
            if line:
                self._field(line)
            else:
                data, self._data = b"\n".join(self._data), []
                if data:
                    events.append(data.decode("utf-8", "replace"))
        return events

    def _lines(self, piece: bytes) -> list[bytes]:
        if self._skip_lf and piece:
            # The CR before was the end of a line already; its LF belongs to it.
            self._skip_lf = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if not self._start and b"\n" not in piece and b"\r" not in piece:
            self._parts.append(piece)
            return []
        buffer = b"".join([*self._parts, piece])
        if self._start:
            if len(buffer) < 3 and _BOM.startswith(buffer):
                self._parts = [buffer]
                return []
            buffer = buffer.removeprefix(_BOM)
            self._start = False
        if b"\r" in buffer:
            self._skip_lf = buffer.endswith(b"\r")
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = buffer.split(b"\n")
        self._parts = [rest]
        return lines

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
