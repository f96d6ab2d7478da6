"""What an unquoted scalar of YAML means, or why nobody can be sure.

YAML 1.1 and 1.2 differ about `no`, `0x10`, `017`, `1_000`, `1:30` and `1e3`. All but the last are refused; `1e3` is the
number that its writer meant.
"""

from __future__ import annotations

import math
import re

from .quantity import NUMBER, QuantityError

#: integers beyond this are not exact in JSON, whose numbers are doubles (RFC 8785)
MAX_INTEGER = 2**53 - 1

_FLOAT = re.compile(NUMBER)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OTHER_NUMBER = re.compile(
    r"[-+]?0[0-9_]+|[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_.]*|[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_OLD_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")


def plain_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar. Raises QuantityError where readers of YAML differ, or a number does not fit."""
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _OLD_BOOLEAN.fullmatch(text):
        meaning = "true" if text.lower() in ("yes", "on") else "false"
        wanted = f'{meaning}, or "{text}" in quotes if the word is meant'
        raise QuantityError(text, wanted, f"YAML 1.1 reads {text} as {meaning}")
    if _OTHER_NUMBER.fullmatch(text):
        raise QuantityError(short(text), "a decimal number, or the text in quotes", "readers of YAML differ about it")
    if _INTEGER.fullmatch(text):
        if len(text) <= 20 and abs(int(text)) <= MAX_INTEGER:
            return int(text)
        wanted = f"a number of at most {MAX_INTEGER}, or the text in quotes"
        raise QuantityError(short(text), wanted, "larger ones are not exact in JSON")
    if _FLOAT.fullmatch(text):
        if math.isfinite(float(text)):
            return float(text)
        raise QuantityError(short(text), "a number that a computer can hold, or the text in quotes")
    return text


def short(text: str) -> str:
    """A text's beginning, for a message."""
    return text if len(text) <= 40 else text[:37] + "..."
