"""What the checks look at: the bundle's files, read once, and what was made again from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schema.digest import digest_json
from ..attempts import read_log
from ..bundle import Bundle
from ..files import read_json
from ..inputs import kept_inputs
from ..plan.plan import Plan, make_plan

if TYPE_CHECKING:
    import polars as pl

#: renders a bundle's reports from its verdict into a folder, and returns the files written
Renderer = Callable[[Path, Path], list[Path]]


@dataclass(frozen=True)
class Context:
    """A bundle under audit. `again` is a folder in which the pinned analysis has written its result once more, or None
    with `not_again` saying why it could not."""

    bundle: Bundle
    again: Path | None
    not_again: str | None
    render: Renderer | None

    @cached_property
    def card(self) -> dict[str, Any]:
        """card.resolved.json."""
        card: dict[str, Any] = read_json(self.bundle.resolved)
        return card

    @cached_property
    def plan_file(self) -> dict[str, Any]:
        """plan.json as it stands in the bundle."""
        plan: dict[str, Any] = read_json(self.bundle.plan)
        return plan

    @cached_property
    def plan(self) -> Plan:
        """The plan, made again from the resolved card and the seed that plan.json names."""
        seed, source = self.plan_file["seed"], self.plan_file["seed_source"]
        return make_plan(self.card, digest_json(self.card), seed, source, kept_inputs(self.bundle, self.card))

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The attempt log."""
        return read_log(self.bundle.log)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The log's lines of these kinds."""
        return [line for line in self.log if line.get("kind") in kinds]

    def parquet(self, path: Path) -> pl.DataFrame:
        """A Parquet file of the bundle."""
        import polars as pl

        return pl.read_parquet(path)

    @cached_property
    def result(self) -> dict[str, Any]:
        """verdict.json (or inference_baseline.json) as it stands in the bundle."""
        result: dict[str, Any] = read_json(self.bundle.result())
        return result

    @cached_property
    def result_again(self) -> dict[str, Any]:
        """The same, computed once more from the raw events. Raises ValueError where that was not possible."""
        if self.again is None:
            raise ValueError(self.not_again or "the analysis was not run")
        result: dict[str, Any] = read_json(self.again / self.bundle.result().name)
        return result
