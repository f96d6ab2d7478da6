"""Keys come from the environment or a file, never from the card, and reach no file, log, report or message."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..schema.errors import InputError

#: in place of a secret
MASK = "[redacted]"
#: the keys that this process has read
_READ: set[str] = set()
_SECRET_WORD = re.compile(
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|AUTHORIZATION|BEARER|COOKIES?)$"
)
#: user and password in a URL
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")


def read_key(source: dict[str, str] | None) -> str | None:
    """The API key that `{env: NAME}` or `{file: PATH}` names; None if the card names none."""
    if source is None:
        return None
    if "env" in source:
        key = os.environ.get(source["env"])
        if not key:
            raise InputError(f"api_key: the environment variable {source['env']} is not set; export it before the run")
        return _noted(key.strip())
    path = Path(source["file"]).expanduser()
    try:
        return _noted(path.read_text().strip())
    except OSError as error:
        raise InputError(f"api_key: cannot read {path}: {error.strerror}") from None


def _noted(key: str) -> str:
    _READ.add(key)
    return key


def known_keys() -> frozenset[str]:
    """The keys that this process has read: their values must stand nowhere."""
    # One of three letters would be found in half of all words.
    return frozenset(key for key in _READ if len(key) > 3)


def names_a_secret(name: str, value: str = "") -> bool:
    """Whether a name (of a variable, an option, a setting) speaks of a secret. A number is none under max_tokens or
    token_threshold; under hf_token it is."""
    words = re.split(r"[^A-Z0-9]+", name.upper())
    speaking = [word for word in words if _SECRET_WORD.search(word)]
    counts = all(word.endswith("TOKENS") or (word.endswith("TOKEN") and word != words[-1]) for word in speaking)
    return bool(speaking) and not (counts and re.fullmatch(r"-?[\d.]+", value))


def mask_values(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without the user and password of a URL."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _USERINFO.sub(f"{MASK}@", text)


def redact(text: str | None, secrets: list[str]) -> str | None:
    """The text without the secrets."""
    if text is None:
        return None
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def redact_env(env: dict[str, Any]) -> dict[str, str]:
    """Environment variables for the record: the values of those whose names speak of a secret are masked."""
    marks = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")
    return {k: MASK if any(mark in k.upper() for mark in marks) else str(v) for k, v in env.items()}
