"""The plan as files: plan.json and plan/requests.parquet. The same card and seed give the same bytes."""

from __future__ import annotations

import hashlib
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
from .prompts import prompt_digests
from .requests import PlannedRequest, plan_requests

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
}


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
            for request, digest in zip(requests, self.prompt_digests[block, load_point], strict=True):
                values = (
                    block, load_point, request.index, request.phase, request.offset_ns, request.client,
                    request.prefix_group, request.prefix_tokens, request.input_tokens, request.output_tokens, digest,
                )  # fmt: skip
                for name, value in zip(REQUEST_COLUMNS, values, strict=True):
                    rows[name].append(value)
        return pl.DataFrame(rows, schema={name: getattr(pl, kind) for name, kind in REQUEST_COLUMNS.items()})


def canonical_row(key: tuple[int, int], request: PlannedRequest, prompt: str) -> bytes:
    """The canonical JSON (RFC 8785) of a row, written out: a plan has a million of them."""
    offset, client, group = (
        "null" if value is None else value for value in (request.offset_ns, request.client, request.prefix_group)
    )
    return (
        f'[{key[0]},{key[1]},{request.index},"{request.phase}",{offset},{client},{group},{request.prefix_tokens},'
        f'{request.input_tokens},{request.output_tokens},"{prompt}"]'
    ).encode()


def make_plan(
    card: dict[str, Any],
    card_digest: str,
    seed: int | None = None,
    seed_source: str = "card",
    inputs: Inputs = NO_INPUTS,
) -> Plan:
    """Card + seed -> every cell in order and every request: pure, and the same on any machine.

    `seed` overrides the card's (a second day); `seed_source` says so in plan.json.
    """
    actual_seed = card["method"]["seed"] if seed is None else seed
    blocks = plan_blocks(card, actual_seed)
    keys = [(block.block, point) for block in blocks for point in range(1, len(card["workload"]["loads"]) + 1)]
    requests = {key: plan_requests(card, actual_seed, *key, inputs) for key in keys}
    digests = prompt_digests(card, actual_seed, requests, inputs)
    plan = Plan(card, card_digest, actual_seed, seed_source, blocks, requests, digests, inputs)
    verify_plan(plan)
    return plan


def write_plan(plan: Plan, bundle: Path) -> None:
    """Write plan.json and plan/requests.parquet into a bundle."""
    write_json(bundle / "plan.json", plan.as_json())
    (bundle / "plan").mkdir(exist_ok=True)
    write_parquet(bundle / "plan" / "requests.parquet", plan.frame())
