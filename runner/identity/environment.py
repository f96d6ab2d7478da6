"""Environment variables and command lines for the record: without secrets, and without this machine's layout.

A value is recorded where the variable's name is on a list of those that change how a server runs; of others the name
alone is. Whatever speaks of a secret is masked, and so is a secret's value wherever else it stands.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..secrets import MASK, known_keys, mask_values, names_a_secret

#: between the values of one variable in several processes
APART = " | "
#: in place of a value that is not on the list
NOT_RECORDED = "[not recorded]"
#: the values that are not recorded, by name, in the order in which the run saw them: in memory alone
_UNSHOWN: dict[str, list[str]] = {}

#: names whose values say how a server runs: engines, accelerators, threads, memory, libraries, Python
_RECORDED = (
    *("VLLM_*", "SGLANG_*", "SGL_*", "TGI_*", "RAY_*", "LMCACHE_*", "FLASHINFER_*", "FLASH_ATTENTION_*", "AITER_*"),
    *("CUDA_*", "CUDNN_*", "CUBLAS*", "NVIDIA_*", "NCCL_*", "NVTE_*", "NVSHMEM_*", "NVPL_*"),
    *("HIP_*", "HSA_*", "ROCM_*", "ROCR_*", "MIOPEN_*", "RCCL_*", "XLA_*", "TPU_*", "PJRT_*", "HABANA_*", "NEURON_*"),
    *("HF_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "TOKENIZERS_*", "SAFETENSORS_*", "TIKTOKEN_*"),
    *("TORCH*", "PYTORCH*", "TRITON_*", "INDUCTOR_*", "TILELANG_*", "GLOO_*", "UCX_*", "FI_*"),
    *("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "ONEDNN_*", "DNNL_*", "OPENBLAS_*", "GOTO_*", "BLIS_*", "NUMEXPR_*"),
    *("MALLOC_*", "TCMALLOC_*", "JEMALLOC_*", "GLIBC_TUNABLES", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_BIND_NOW"),
    *("PYTHON*", "UVICORN_*", "WEB_CONCURRENCY", "DO_NOT_TRACK", "LANG", "LC_ALL", "TZ", "CONTAINER_IMAGE*"),
    *("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
)
#: drawn anew by each process
_VOLATILE = re.compile(r"(^|_)(PORTS?|SHM_BUFFER_NAME|INSTANCE_ID|SOCKET|PID)$|^_$")
#: of the terminal, the login or the cluster that a run is started from, which may be another when it is resumed
_SESSION = re.compile(
    r"TERM(_\w+)?|COLORTERM|LS_COLORS|TMUX(_\w+)?|STY|WINDOW(ID)?|VTE_VERSION|WT_SESSION|COLUMNS|LINES|PS1|PROMPT_COMMAND"
    r"|SSH_\w+|DISPLAY|WAYLAND_\w+|DBUS_\w+|XDG_(SESSION|RUNTIME)_\w+|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_\w+"
    r"|PWD|OLDPWD|SHLVL|HIST\w+|EDITOR|VISUAL|PAGER|LESS(OPEN|CLOSE)?|MAIL|LOGNAME|USER(NAME)?|HOSTNAME"
    r"|PYTEST_\w+|MAKE(FLAGS|LEVEL)|MFLAGS|KUBERNETES_\w+|\w+_SERVICE_(HOST|PORT\w*)|\w+_PORT_\d+_\w+"
)


def recorded_env(env: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """The environment for the record, by name. `named` are variables that the card names: their values are recorded
    too."""
    named, secrets = set(named), secret_values(env)
    found = {}
    for name in sorted(env):
        if (_VOLATILE.search(name) or _SESSION.fullmatch(name)) and name not in named:
            continue
        if names_a_secret(name, env[name]):
            found[name] = MASK
        elif name in named or any(fnmatch.fnmatchcase(name, pattern) for pattern in _RECORDED):
            found[name] = shortened(mask_values(env[name], secrets))
        else:
            found[name] = _unshown(name, env[name])
    return found


def _unshown(name: str, value: str) -> str:
    """What stands for a value that is not recorded: which of the values of this name it is that the run has seen, so
    that two servers of which it differs are seen to differ. A digest could be guessed."""
    seen = _UNSHOWN.setdefault(name, [])
    if value not in seen:
        seen.append(value)
    number = seen.index(value) + 1
    return NOT_RECORDED if number == 1 else f"{NOT_RECORDED[:-1]}: value {number}]"


def forget_unshown() -> None:
    """A new run: the values that are not recorded are numbered anew."""
    _UNSHOWN.clear()


def secret_values(env: Mapping[str, str]) -> frozenset[str]:
    """Values that must stand nowhere: the keys that this run has read, and what the environment's secrets are."""
    # A short value (a flag, a number) would be found in half of all texts.
    spoken = [value for name, value in env.items() if names_a_secret(name, value)]
    return known_keys() | {part for value in spoken for part in (value, *value.split(APART)) if len(part) >= 8}


def recorded_argv(argv: list[str], secrets: Iterable[str] = ()) -> list[str]:
    """A command for the record: without what differs at every start (its port, and where the embedded engine writes its
    log), without secrets, the interpreter by its name alone where its path is absolute."""
    found, before = [], ""
    for number, part in enumerate(argv):
        option, equals, value = part.partition("=")
        if before in ("--port", "--log"):
            part = before.removeprefix("--").upper()
        elif equals and option in ("--port", "--log"):
            part = f"{option}={option.removeprefix('--').upper()}"
        elif names_a_secret(before, part) and before.startswith("-") and not part.startswith("-"):
            part = MASK
        elif equals and names_a_secret(option, value):
            part = f"{option}={MASK}"
        elif number == 0 and os.path.isabs(part):
            # python, python3 and python3.11 are one file, whose digest is known.
            part = re.sub(r"^python[\d.]*$", "python", os.path.basename(part))
        # Several keys may follow one option.
        before = before if part == MASK else argv[number]
        found.append(_setting(shortened(mask_values(part, secrets)), secrets))
    return found


def _setting(part: str, secrets: Iterable[str]) -> str:
    """An argument as it is; where it is JSON that names a secret, without that."""
    if not part.startswith(("{", "[")):
        return part
    try:
        value = json.loads(part)
        masked = recorded_config(value, secrets)
    except (ValueError, RecursionError):
        return part
    return part if masked == value else json.dumps(masked)


def shortened(text: str) -> str:
    """Text without this machine's layout: paths below the working directory as relative ones, those below the home as
    ~/…"""
    for folder, short in ((os.getcwd(), ""), (str(Path.home()), "~/")):
        if folder != os.sep:
            text = text.replace(folder + os.sep, short)
    home = str(Path.home())
    return "~" if text == home and home != os.sep else text


def recorded_config(value: Any, secrets: Iterable[str] = (), name: str = "") -> Any:
    """A configuration for the record, at any depth: secrets masked, paths shortened."""
    if isinstance(value, dict):
        return {str(key): recorded_config(inner, secrets, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [recorded_config(inner, secrets, name) for inner in value]
    if isinstance(value, str):
        return MASK if value and names_a_secret(name, value) else shortened(mask_values(value, secrets))
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
