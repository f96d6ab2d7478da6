"""How messages put things: values shown shortly and never if they may be secrets, lists of words, did-you-mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal

#: names whose values are never shown and may not stand in a card
_SECRET = re.compile(
    r"((^|[-_.])(key|token|secret|pass|credentials?|authorization|bearer|dsn)|[-_.]pwd|"
    r"(password|passwd|passphrase|api-?_?key|access-?_?key|secret))[-_]?\d*$",
    re.IGNORECASE,
)
#: a secret within a text: an address with a password, a key in a query, an Authorization header
_SECRET_TEXT = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|[?&]([\w.-]*[-_.])?(api-?_?key|key|token|secret|password|sig|signature)=[^&\s]|"
    r"(authorization|api-?_?key)\s*[:=]\s*\S|\bbearer\s+\S*\d\S*",
    re.IGNORECASE,
)
_LONGEST = 60
_PLAIN_NAME = re.compile(r"[\w.$@/-]{1,100}")

#: keys and indexes from the root of a card
KeyPath = tuple[str | int, ...]


def dotted(path: Iterable[str | int]) -> str:
    """A key path as people write it: `guards[0].at`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _PLAIN_NAME.fullmatch(part) else show(repr(part))
            text += f".{name}" if text else name
    return text


def is_secret_name(name: str) -> bool:
    """Whether a key, flag or variable of this name holds a secret (`api_key`, `HF_TOKEN`; not `max-tokens`)."""
    return _SECRET.search(name) is not None


def is_secret_text(text: str) -> bool:
    """Whether a text holds a password or a key by its form: `http://me:pw@host`, `…?api_key=k`, `Bearer k`."""
    return _SECRET_TEXT.search(text) is not None


def holds_secret(path: Iterable[str | int]) -> bool:
    """Whether a value at this path may be a secret."""
    return any(isinstance(part, str) and is_secret_name(part) for part in path)


def show(value: object, path: Iterable[str | int] = ()) -> str:
    """A value in a message, shortened; a value at a secret's place is not shown."""
    if holds_secret(path):
        return "a value that is not shown"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    text = str(value) if isinstance(value, str | Decimal) else repr(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return repr(text) if text.strip() != text or not text or not text.isprintable() else text


def words(options: Iterable[object]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    texts = [show(option) for option in options]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def did_you_mean(word: object, options: Iterable[str], cutoff: float = 0.6) -> str:
    """A did-you-mean for a misspelt word, or ''. Case, dashes and underscores are forgiven."""
    plain = {_plain(option): option for option in options}
    close = difflib.get_close_matches(_plain(str(word)), plain, n=1, cutoff=cutoff)
    return f"did you mean {plain[close[0]]}?" if close else ""


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
