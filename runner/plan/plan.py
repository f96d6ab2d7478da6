"""The plan as files: plan.json and plan/requests.parquet. The same card and seed give the same bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schema.digest import digest_json
from ...schema.inputs import NO_INPUTS, Inputs
from ...schema.versions import PLAN_VERSION
from ..files import write_json, write_parquet
from .blocks import Block, Cell, plan_blocks
from .exact import verify_plan
from .prompts import Prompts, prompt_digests
from .requests import PlannedRequest, plan_requests, require_context
from .reuse import reusable_tokens

if TYPE_CHECKING:
    import polars as pl

REQUEST_COLUMNS: dict[str, str] = {
    "block": "Int32",
    "load_point": "Int32",
    "index": "Int64",
    "phase": "String",
    "offset": "Int64",
    "client": "Int32",
    "prefix_group": "Int64",
    "prefix_tokens": "Int32",
    "input_tokens": "Int32",
    "output_tokens": "Int32",
    "prompt_digest": "String",
    "population": "String",
    "conversation": "Int64",
    "turn": "Int32",
    "turns": "Int32",
    "think": "Int64",
    "row": "Int64",
    "reusable_tokens": "Int32",
}
#: columns that came later: a plan written before has none of them
LATER_COLUMNS = ("population", "conversation", "turn", "turns", "think", "row", "reusable_tokens")

#: seed_source of a pilot's plan, and its number of blocks
PILOT, PILOT_BLOCKS = "pilot", 3


@dataclass(frozen=True)
class Plan:
    """A whole experiment before it is run: its blocks, and the requests of each (block, load point)."""

    card: dict[str, Any]
    card_digest: str
    seed: int
    seed_source: str
    blocks: list[Block]
    requests: dict[tuple[int, int], list[PlannedRequest]]
    prompt_digests: dict[tuple[int, int], list[str]]
    inputs: Inputs = field(default=NO_INPUTS, compare=False)

    @property
    def is_pilot(self) -> bool:
        """Whether it is a pilot's: three blocks (and the card's spares), and no verdict."""
        return self.seed_source == PILOT

    @cached_property
    def prompts(self) -> Prompts:
        """The text of its prompts."""
        return Prompts(self.card, self.seed, self.inputs)

    def reusable(self, block: int, load_point: int) -> list[int | None]:
        """What of each prompt of a load point a prefix cache could hold when it comes, in tokens."""
        return reusable_tokens(self.card, self.prompts, self.requests[block, load_point])

    def cells(self) -> list[Cell]:
        """Every cell in planned order, spares last."""
        return [cell for block in self.blocks for cell in block.cells]

    @cached_property
    def requests_digest(self) -> str:
        """SHA-256 over the content of every planned request: it does not depend on how the Parquet file is written."""
        sha = hashlib.sha256()
        for key, requests in self.requests.items():
            for request, prompt in zip(requests, self.prompt_digests[key], strict=True):
                sha.update(canonical_row(key, request, prompt))
        return "sha256:" + sha.hexdigest()

    def as_json(self) -> dict[str, Any]:
        """plan.json."""
        return {
            "plan_version": PLAN_VERSION,
            "card_id": self.card["id"],
            "card_digest": self.card_digest,
            "seed": self.seed,
            "seed_source": self.seed_source,
            **({"pilot": True} if self.is_pilot else {}),
            "blocks": [block.as_json() for block in self.blocks],
            "cells": [asdict(cell) for cell in self.cells()],
            "requests_digest": self.requests_digest,
        }

    def digest(self) -> str:
        """The digest of plan.json's content."""
        return digest_json(self.as_json())

    def frame(self) -> pl.DataFrame:
        """plan/requests.parquet as a data frame."""
        import polars as pl

        rows: dict[str, list[Any]] = {name: [] for name in REQUEST_COLUMNS}
        for (block, load_point), requests in self.requests.items():
            digests, reusable = self.prompt_digests[block, load_point], self.reusable(block, load_point)
            for request, digest, tokens in zip(requests, digests, reusable, strict=True):
                values = (
                    block, load_point, request.index, request.phase, request.offset_ns, request.client,
                    request.prefix_group, request.prefix_tokens, request.input_tokens, request.output_tokens, digest,
                    request.population, request.conversation, request.turn, request.turns,
                    request.think_ns if request.turn else None, request.row, tokens,
                )  # fmt: skip
                for name, value in zip(REQUEST_COLUMNS, values, strict=True):
                    rows[name].append(value)
        return pl.DataFrame(rows, schema={name: getattr(pl, kind) for name, kind in REQUEST_COLUMNS.items()})


def canonical_row(key: tuple[int, int], request: PlannedRequest, prompt: str) -> bytes:
    """The canonical JSON (RFC 8785) of a row, written out: a plan has a million of them."""
    offset, client, group, length = (
        "null" if value is None else value
        for value in (request.offset_ns, request.client, request.prefix_group, request.input_tokens)
    )
    row = (
        f'[{key[0]},{key[1]},{request.index},"{request.phase}",{offset},{client},{group},{request.prefix_tokens},'
        f'{length},{request.output_tokens},"{prompt}"'
    )
    # What came later stands only where it says something, so that the digests of older plans stay.
    later = (request.population, request.conversation, request.turn, request.turns, request.think_ns, request.row)
    if any(value is not None for value in (*later[:4], later[5])):
        row += f",{json.dumps(later, separators=(',', ':'))[1:-1]}"
    return f"{row}]".encode()


def make_plan(
    card: dict[str, Any],
    card_digest: str,
    seed: int | None = None,
    seed_source: str = "card",
    inputs: Inputs = NO_INPUTS,
) -> Plan:
    """Card + seed -> every cell in order and every request: pure, and the same on any machine.

    `seed` overrides the card's (a second day, a pilot); `seed_source` says so in plan.json. `inputs`: the files
    that the card names. Raises InputError for what cannot be planned: recorded requests that do not suffice, prompts
    too long.
    """
    actual_seed = card["method"]["seed"] if seed is None else seed
    blocks = plan_blocks(_of_a_pilot(card) if seed_source == PILOT else card, actual_seed)
    keys = [(block.block, point) for block in blocks for point in sorted(block.loads)]
    requests = {key: plan_requests(card, actual_seed, *key, inputs) for key in keys}
    for rows in requests.values():
        require_context(card, rows)
    digests = prompt_digests(card, actual_seed, requests, inputs)
    plan = Plan(card, card_digest, actual_seed, seed_source, blocks, requests, digests, inputs)
    verify_plan(plan)
    return plan


def _of_a_pilot(card: dict[str, Any]) -> dict[str, Any]:
    """The card with a pilot's method: three blocks of its arms and its spares, no A/A."""
    method = card["method"] | {"blocks": PILOT_BLOCKS}
    return card | {"method": method | ({"aa": None} if "aa" in method else {})}


def write_plan(plan: Plan, bundle: Path) -> None:
    """Write plan.json and plan/requests.parquet into a bundle."""
    write_json(bundle / "plan.json", plan.as_json())
    (bundle / "plan").mkdir(exist_ok=True)
    write_parquet(bundle / "plan" / "requests.parquet", plan.frame())
