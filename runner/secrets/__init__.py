"""Keys come from the environment or a file, never from the card, and reach no file, log, report or message.

What is kept or shown goes through the process's `redactor()`: it knows the secrets of the environment that benchcard
was started in, and every key that was read. What a server says is redacted where it comes in (Probe, event rows, the
guard of a server's log), so that nothing behind it has to think of it; the attempt log and the terminal are the second
net.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schema.digest import canonical_json
from ...schema.errors import InputError
from .names import names_a_secret
from .redactor import MASK_TEXT, Redactor, environment_secrets, is_open

__all__ = [
    "MASK", "Redactor", "is_open", "known_keys", "learn", "log_redactor", "mask_values", "names_a_secret", "open_card",
    "open_files", "read_key", "redact", "redact_env", "redactor",
]  # fmt: skip

#: in place of a secret
MASK = MASK_TEXT
_learnt: set[str] = set()
_public: list[str] = [""]
_made: list[Redactor] = []


def redactor() -> Redactor:
    """The redactor of this process: its environment as it was at first use, and what was learnt since."""
    if not _made:
        secrets, named = environment_secrets(os.environ, _public[0])
        home = str(Path.home()) if os.environ.get("HOME") else ""
        shorten = [(f"{folder}/", short) for folder, short in ((os.getcwd(), ""), (home, "~/")) if len(folder) > 1]
        _made.append(Redactor(secrets | _learnt, named))
        _made.append(Redactor(secrets | _learnt, named, shorten))
    return _made[0]


def log_redactor() -> Redactor:
    """The same for a server's log, in which paths are written as a published bundle has them: those below the working
    directory as relative ones, those below the home as ~/…"""
    redactor()
    return _made[1]


def learn(*secrets: str) -> None:
    """From now on these are secrets too."""
    if not _learnt.issuperset(secrets):
        _learnt.update(secrets)
        _made.clear()


def open_card(card: Mapping[str, Any], written: str = "") -> None:
    """This resolved card (`written`: as it was written, comments too) is what a run is about. What it says is public,
    whatever it looks like; only what the environment calls a secret may not stand on it.

    Raises InputError if a secret does.
    """
    text = canonical_json(dict(card)).decode() + written
    for name, held in os.environ.items():
        secrets, _ = environment_secrets({name: held}, text)
        if Redactor(secrets).holds_secret(text):
            raise InputError(
                f"the card holds a secret: the value of the environment variable {name}, which is not shown; wanted no "
                "secret on a card, since every bundle holds it (a server that is launched inherits the environment)"
            )
    if _public[0] != text:
        _public[0] = text
        _made.clear()


def open_files(files: Iterable[Path]) -> None:
    """Files that a card names are kept in the bundle. Raises InputError if one holds a secret of the environment."""
    for file in files:
        if redactor().holds_secret(file.read_bytes()):
            raise InputError(
                f"{file}: it holds a secret of the environment, which is not shown; wanted no secret in a file that a "
                "card names, since every bundle holds it"
            )


def read_key(source: dict[str, str] | None) -> str | None:
    """The API key that `{env: NAME}` or `{file: PATH}` names; None if the card names none."""
    if source is None:
        return None
    if "env" in source:
        key = os.environ.get(source["env"], "").strip()
        if not key:
            raise InputError(f"api_key: the environment variable {source['env']} is not set; export it before the run")
    else:
        path = Path(source["file"]).expanduser()
        try:
            key = path.read_text().strip()
        except OSError as error:
            raise InputError(f"api_key: cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"api_key: {path} is not a text") from None
        if not key:
            raise InputError(f"api_key: {path} is empty")
    if not key.isprintable():
        raise InputError("api_key: the key is not one line of printable characters, so no header can hold it")
    learn(key)
    return key


def known_keys() -> frozenset[str]:
    """The keys that this process has read and that can be told from ordinary text."""
    return frozenset(key for key in _learnt if len(key) > 3)


def mask_values(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, without this process's, and without the user and password of a URL."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return str(redactor().value(text))


def redact(text: str | None, secrets: list[str]) -> str | None:
    """Free text without these secrets and this process's."""
    if text is None:
        return None
    learn(*secrets)
    return redactor().text(text)


def redact_env(env: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables for the record: values of names that speak of a secret are masked, and secrets within the
    others, such as a password in a proxy's URL."""
    return redactor().env(env)
