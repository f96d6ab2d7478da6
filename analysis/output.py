"""Results -> JSON that any reader takes: plain numbers, no NaN or infinity, the same bytes each time."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: numbers are written with this many significant digits, so that the order of a sum does not show
DIGITS = 12


def plain(value: Any) -> Any:
    """The value with every number a plain int or float of `DIGITS` digits. NaN and infinity are a bug and raise."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} where a number or null belongs")
    return float(f"{number:.{DIGITS}g}") + 0.0


def text(document: Mapping[str, Any]) -> str:
    """The document as JSON text."""
    return json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document whole or not at all: under a temporary name, synced, then renamed."""
    data = text(document).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


#: where the project says how often its analysis errs, from simulation: a file of its repository
CALIBRATION = "reports/CALIBRATION.md"


def libraries() -> dict[str, str]:
    """The versions of the libraries that computed the numbers."""
    import numpy
    import polars
    import scipy

    return {"numpy": numpy.__version__, "scipy": scipy.__version__, "polars": polars.__version__}


def header(bundle_card: Mapping[str, Any], plan: Mapping[str, Any], run: str) -> dict[str, Any]:
    """What every result says first: which run, which card, which seed, which analysis."""
    decision = bundle_card.get("decision") or {}
    return {
        "run": run,
        "card": {
            "id": bundle_card["id"],
            "digest": plan["card_digest"],
            "title": bundle_card.get("title"),
            "question": decision.get("question"),
            "kind": bundle_card["kind"],
        },
        "seed": plan["seed"],
        "revision": bundle_card["analysis"]["revision"],
        "libraries": libraries(),
        "calibration": CALIBRATION,
    }
