"""Values of a card that are neither plain nor quantities: addresses and laws of choice."""

from __future__ import annotations

import math
import re
from urllib.parse import SplitResult, urlsplit

from .phrase import show
from .quantity import NUMBER, QuantityError

_ZIPF = re.compile(rf"zipf\s+({NUMBER})")


def law_of_choice(text: str) -> dict[str, object]:
    """`uniform` or `zipf 1.1` as {"law", "exponent"}; null for uniform. Zipf: the k-th document weighs k**-exponent."""
    if text == "uniform":
        return {"law": "uniform", "exponent": None}
    match = _ZIPF.fullmatch(text)
    exponent = float(match.group(1)) if match else math.nan
    if not 0 < exponent <= 10:
        raise QuantityError(show(text), "uniform, or zipf and an exponent above 0 and up to 10, such as zipf 1.1")
    return {"law": "zipf", "exponent": exponent}


def base_url(text: str) -> str:
    """The base address of an OpenAI-compatible server in one form, ending in /v1: `/x`, `/x/v1`, `/x/v1/` agree."""
    parts = _split(text)
    path = parts.path.rstrip("/")
    for endpoint in ("/chat/completions", "/completions", "/models"):
        if path.endswith(endpoint):
            raise QuantityError(show(text), "the base address", f"leave {endpoint} out")
    return f"{parts.scheme}://{parts.netloc}{path}" + ("" if path.endswith("/v1") else "/v1")


def page_url(text: str) -> str:
    """The address of one page, checked."""
    parts = _split(text)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _split(text: str) -> SplitResult:
    """The parts of an http address without a secret in it: what may hold one is refused, and not shown."""
    wanted = "an address such as http://host:8000/v1"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise QuantityError("an address that is none", wanted) from None
    if "@" in parts.netloc:
        raise QuantityError(
            "an address with a user name, which is not shown", "an address without one", "keys belong in api_key"
        )
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise QuantityError(
            "an address with a query, which is not shown", "an address without one", "keys belong in api_key"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in text):
        raise QuantityError(show(text), wanted)
    return parts
