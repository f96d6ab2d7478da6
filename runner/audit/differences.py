"""Where two JSON documents differ, by path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

#: another build of numpy or scipy may differ in the last digits, and in no others
_RELATIVE = 1e-9


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Each place where `found` is not what was `wanted`, as 'path: found …, recomputed …'."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            here = f"{path}.{key}" if path else str(key)
            if key not in found:
                yield f"{here}: missing, recomputed {_short(wanted[key])}"
            elif key not in wanted:
                yield f"{here}: found {_short(found[key])}, recomputed none"
            else:
                yield from differences(found[key], wanted[key], here)
    elif isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            yield f"{path}: {len(found)} entries, recomputed {len(wanted)}"
        for index, (one, other) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(one, other, f"{path}[{index}]")
    elif not _same(found, wanted):
        yield f"{path}: found {_short(found)}, recomputed {_short(wanted)}"


def _same(found: Any, wanted: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (found, wanted))
    if numbers:
        return math.isclose(found, wanted, rel_tol=_RELATIVE, abs_tol=1e-15)
    return type(found) is type(wanted) and bool(found == wanted)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
