"""Keys come from the environment or a file, never from the card, and reach no file, log, report or message."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..schema.errors import InputError

_MASK = "[redacted]"


def read_key(source: dict[str, str] | None) -> str | None:
    """The API key that `{env: NAME}` or `{file: PATH}` names; None if the card names none."""
    if source is None:
        return None
    if "env" in source:
        key = os.environ.get(source["env"])
        if not key:
            raise InputError(f"api_key: the environment variable {source['env']} is not set; export it before the run")
        return key.strip()
    path = Path(source["file"]).expanduser()
    try:
        return path.read_text().strip()
    except OSError as error:
        raise InputError(f"api_key: cannot read {path}: {error.strerror}") from None


def redact(text: str | None, secrets: list[str]) -> str | None:
    """The text without the secrets."""
    if text is None:
        return None
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return text


def redact_env(env: dict[str, Any]) -> dict[str, str]:
    """Environment variables for the record: the values of those whose names speak of a secret are masked."""
    marks = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")
    return {k: _MASK if any(mark in k.upper() for mark in marks) else str(v) for k, v in env.items()}
