"""Whether a reply is right, or conforms. Pure.

exact_number  the last number of the reply equals the answer's last number. 1,234.50 and 1234.5 are the same; a
              comma separates thousands and nothing else; a minus counts where no digit or letter stands before it
              (7-5 ends in 5, "is -5" in -5); digits that belong to a word (w12) are no number
exact_text    reply and answer are the same but for case, spaces and a final stop
contains      the answer stands in the reply, in any case, with no letter or digit beside it
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])(?:(?<![)\]])[-−+])?(?:[$€£])?((?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)")


def last_number(text: str) -> Decimal | None:
    """The last number in a text; None where there is none."""
    matches = list(_NUMBER.finditer(text))
    if not matches:
        return None
    found = matches[-1]
    value = Decimal(found[1].replace(",", ""))
    return -value if found[0][0] in "-−" else value


def is_right(scorer: str, reply: str, answer: str) -> bool:
    """Whether a reply is the answer, by a scorer (see above)."""
    if scorer == "exact_number":
        number = last_number(reply)
        return number is not None and number == last_number(answer)
    if scorer == "exact_text":
        return _plain(reply) == _plain(answer)
    return re.search(rf"(?<!\w){re.escape(_plain(answer))}(?!\w)", _plain(reply)) is not None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def conforms(reply: str, schema: Any) -> bool:
    """Whether a reply is one JSON document (RFC 8259) that its JSON Schema (Draft 2020-12) accepts."""
    from jsonschema import Draft202012Validator  # takes a tenth of a second to import

    try:
        return bool(Draft202012Validator(schema).is_valid(json.loads(reply, parse_constant=_refuse)))
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> Any:
    raise ValueError(name)
