"""What the secrets of a run are, and every kind of record without them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, overload

from .forms import exact_forms, folded_forms
from .names import inner_secrets, is_plain, is_strong, is_word, looks_secret, may_be_secret, speaks_of_secret
from .scrub import MASK, Needles, holds, scrub

MASK_TEXT = MASK.decode()
#: how many texts are remembered, and how long they may be
_SEEN = 4096
#: variables (and beginnings of such) that hold settings, which a record may name: their values are no secrets
OPEN_NAMES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "PWD", "OLDPWD", "SHLVL", "HOSTNAME",
    "EDITOR", "PAGER", "DISPLAY", "COLUMNS", "LINES", "_", "LD_LIBRARY_PATH", "LD_PRELOAD", "TMPDIR", "CI",
    "DO_NOT_TRACK", "LS_COLORS",
)  # fmt: skip
OPEN_PREFIXES = (
    "LC_", "XDG_", "VLLM_", "CUDA_", "NCCL_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "TORCH", "PYTORCH_", "TRITON_",
    "HIP_", "ROCR_", "NVIDIA_", "PYTHON", "HF_HUB_", "HF_HOME", "TRANSFORMERS_", "TOKENIZERS_", "CONDA_",
    "VIRTUAL_ENV", "MALLOC_",
)  # fmt: skip


def is_open(name: str) -> bool:
    """Whether a variable holds a setting whose value a record may show."""
    return not speaks_of_secret(name) and (name in OPEN_NAMES or name.startswith(OPEN_PREFIXES))


class Redactor:
    """Takes a run's secrets out of whatever is kept or shown. Made of values; looks at nothing itself.

    `secrets`: values known to be secret. One that could be ordinary text (short, a number, a plain word) is taken out
    of free text only, as a word of its own, and wherever it follows a name or a scheme. `named`: variables of the
    environment whose values are masked where they follow the variable's name, and in free text as words of their own.
    `shorten`: paths, and how they are written.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        named: Mapping[str, str] | None = None,
        shorten: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.secrets = frozenset(part for secret in secrets for part in _parts(secret))
        strong = sorted(filter(is_strong, self.secrets), key=len, reverse=True)
        weak = {secret for secret in self.secrets - set(strong) if is_word(secret)}
        weak |= {held for name, held in (named or {}).items() if may_be_secret(held)}
        bearers = {b"bearer " + secret.lower().encode() for secret in self.secrets - set(strong)}
        self.needles = Needles(
            folded=tuple(sorted({form for secret in strong for form in folded_forms(secret)} | bearers)),
            exact=tuple(sorted({form for secret in strong for form in exact_forms(secret)})),
            words=tuple(sorted(_raw(secret.lower()) for secret in weak)),
            named={_raw(name): _raw(value) for name, value in (named or {}).items() if value},
            shorten=tuple((_raw(long), _raw(short)) for long, short in shorten),
        )
        self._seen: dict[str, str] = {}

    @overload
    def text(self, text: str) -> str:
        """Text stays text."""

    @overload
    def text(self, text: None) -> None:
        """None stays None."""

    def text(self, text: str | None) -> str | None:
        """Free text (an error, a message, a log) without secrets."""
        if text is None:
            return None
        # A server that fails says the same of many requests.
        if (clean := self._seen.get(text)) is None:
            clean = _str(scrub(_raw(text), self.needles))
            if len(self._seen) < _SEEN and len(text) < _SEEN:
                self._seen[text] = clean
        return clean

    def value(self, value: Any) -> Any:
        """A JSON value without secrets: in every string and key; a string under a name that speaks of a secret is
        masked whole."""
        if isinstance(value, str):
            return _str(scrub(_raw(value), self.needles, free=False))
        if isinstance(value, Mapping):
            return {self.value(key): self._held(key, held) for key, held in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list | tuple) else value

    def _held(self, key: Any, held: Any) -> Any:
        if isinstance(key, str) and speaks_of_secret(key):
            if isinstance(held, str) and held and not is_plain(held):
                return MASK_TEXT
            if isinstance(held, list | tuple):
                return [MASK_TEXT if isinstance(item, str) and item else self.value(item) for item in held]
        return self.value(held)

    def env(self, env: Mapping[str, Any]) -> dict[str, str]:
        """Environment variables without secrets: the values of names that speak of one, and secrets within others."""
        return {
            name: MASK_TEXT if speaks_of_secret(name) and str(held) else str(self.value(str(held)))
            for name, held in env.items()
        }

    def argv(self, argv: Iterable[str]) -> list[str]:
        """A command without secrets: also what follows a flag whose name speaks of one."""
        out: list[str] = []
        hide = False
        for part in argv:
            name, equals, _ = part.partition("=")
            speaks = part.startswith("-") and speaks_of_secret(name)
            masked = f"{name}={MASK_TEXT}" if speaks and equals else self.value(part)
            out.append(MASK_TEXT if hide and not part.startswith("--") else masked)
            hide = speaks and not equals
        return out

    def holds_secret(self, text: str | bytes) -> bool:
        """Whether a secret that cannot be ordinary text stands in it, in whatever form."""
        return holds(_raw(text) if isinstance(text, str) else text, self.needles)


def environment_secrets(environ: Mapping[str, str], public: str = "") -> tuple[set[str], dict[str, str]]:
    """(secrets, named values) of an environment, for Redactor. `public`: what everybody may read, such as the card: a
    value that stands there is no secret by its look alone."""
    secrets: set[str] = set()
    named: dict[str, str] = {}
    for name, held in environ.items():
        value = held.strip()
        if not value:
            continue
        secrets |= inner_secrets(value)
        if speaks_of_secret(name):
            if not _is_path(value):
                secrets.add(value)
                named[name] = value
        elif not is_open(name) and value not in public:
            named[name] = value
            if looks_secret(value):
                secrets.add(value)
    return secrets, named


def _is_path(value: str) -> bool:
    try:
        return value.startswith(("/", "~")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _parts(secret: str) -> set[str]:
    """A secret, and the lines and JSON texts that it is made of: a log shows them one by one."""
    parts = {secret, *(line.strip() for line in secret.splitlines() if is_strong(line.strip()))}
    if secret.lstrip().startswith("{"):
        try:
            document = json.loads(secret)
        except ValueError:
            return parts
        parts |= {held for name, held in document.items() if isinstance(held, str) and speaks_of_secret(name)}
        parts |= {line for part in list(parts) for line in part.splitlines() if is_strong(line)}
    return {part for part in parts if part}


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _str(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
