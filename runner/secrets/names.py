"""What speaks of a secret: the name of a variable, flag or field, and the look of a value. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

#: parts of a name, between - _ and ., that speak of a secret wherever they stand
_PARTS = (
    "apikey", "secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials", "auth",
    "authorization", "bearer", "jwt",
)  # fmt: skip
#: and those that do at the end (max_token_num is a number; pass_config holds none), but for such as 2 and ID
_LAST = (
    "key", "keys", "token", "pass", "pwd", "pw", "cred", "creds", "cookie", "cookies", "pat", "dsn", "signature", "sig",
)  # fmt: skip
_AFTER = ("id", "value", "string", "base64", "b64", "header")
#: ends of a part that do, as in PGPASSWORD
_ENDS = ("password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey", "secret", "credentials")
#: names that only look so
_OPEN = ("pwd", "oldpwd", "key")
#: what stands for "none needed" where software insists on a key: as words they say nothing
_PLACEHOLDERS = ("none", "null", "empty", "true", "false", "dummy", "test", "token", "default", "unset")
#: how tokens of well-known services begin
_KNOWN = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
#: secrets inside a longer value: a URL's user and password, an assignment, an Authorization header
_IN_URL = re.compile(r"://([^/\s:@'\"]*):([^/\s@'\"]+)@|://([^/\s:@'\"]{8,})@")
_ASSIGNED = re.compile(r"([\w.-]+)=([^\s&;,'\"]+)|([\w.-]+):\s*([^\s&;,'\"/]+)")
_SCHEME = re.compile(r"(?i)\b(?:bearer|basic)(?:\s+|%20)([\w.~+/=-]{4,})")

#: shorter than this, a secret may be a part of anything
_STRONG = 8
_WORD = 16


@lru_cache(maxsize=4096)
def speaks_of_secret(name: str) -> bool:
    """Whether a variable, flag or field of this name holds a secret: HF_TOKEN, api-key, PGPASSWORD, apiKey; not
    max-tokens, PWD or a bare `key`."""
    if name.lower() in _OPEN:
        return False
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    parts = [part.rstrip("0123456789") for part in re.split(r"[^a-z0-9]+", spaced.lower())]
    parts = [part for part in parts if part]
    while len(parts) > 1 and parts[-1] in _AFTER:
        parts.pop()
    return bool(parts) and (parts[-1] in _LAST or any(part in _PARTS or part.endswith(_ENDS) for part in parts))


def is_strong(secret: str) -> bool:
    """Whether a secret can be told from ordinary text: 8 characters or more, neither a number nor one plain word."""
    plain = secret.isalpha() and len(secret) < _WORD and (secret.islower() or secret.isupper() or secret.istitle())
    return len(secret) >= _STRONG and not secret.isdigit() and not plain


def is_word(secret: str) -> bool:
    """Whether a secret that is not strong can be looked for as a word of its own: `hunter2`; not `none`, `EMPTY`, `80`
    or `x`."""
    return len(secret) >= 4 and not secret.isdigit() and secret.lower() not in _PLACEHOLDERS


def looks_secret(value: str) -> bool:
    """Whether a value looks like a secret whatever its name is: a token of a well-known service, or 16 and more
    characters in one piece, letters and digits, and no path."""
    if _KNOWN.search(value):
        return True
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return len(value) >= _WORD and mixed and re.fullmatch(r"[^\s/\\:,;]+", value) is not None


def may_be_secret(value: str) -> bool:
    """Whether a value of a variable that nobody knows is better not shown in a log, where it stands as a word of its
    own: 8 characters or more in one piece; no number, version, path or address."""
    return len(value) >= _STRONG and re.fullmatch(r"(?!v?[\d.]+(\.|$))[^\s/:]+", value) is not None


def is_plain(value: str) -> bool:
    """Whether a value is what a secret is not, whatever its name: a version, a digest with its algorithm, a number."""
    return re.fullmatch(r"v?\d+(\.\d+)+\S{0,16}|sha256:[0-9a-f]{64}|-?[\d.]+", value) is not None


def inner_secrets(value: str) -> set[str]:
    """The secrets within a longer value: `http://user:PASSWORD@host`, `…?api_key=KEY`, `authorization=Bearer KEY`."""
    found = {part for match in _IN_URL.finditer(value) for part in (match[2], match[3]) if part}
    found |= set(map(unquote, found))
    for match in _ASSIGNED.finditer(value):
        name, held = (match[1], match[2]) if match[1] else (match[3], match[4])
        if speaks_of_secret(name) and held.lower() not in ("bearer", "basic"):
            found.add(held)
    return found | {match[1] for match in _SCHEME.finditer(value)} | set(_KNOWN.findall(value))


_SPEAKING = re.compile(
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|AUTHORIZATION|BEARER|COOKIES?)$"
)


def names_a_secret(name: str, value: str = "") -> bool:
    """Whether a name (of a variable, an option, a setting) speaks of a secret, seen more strictly: also `block_keys` or
    `max_tokens`, but for a number. A number is none under max_tokens or token_threshold; under hf_token it is."""
    words = re.split(r"[^A-Z0-9]+", name.upper())
    speaking = [word for word in words if _SPEAKING.search(word)]
    counts = all(word.endswith("TOKENS") or (word.endswith("TOKEN") and word != words[-1]) for word in speaking)
    return bool(speaking) and not (counts and re.fullmatch(r"-?[\d.]+", value))
