"""The phase of the quality gates: after the last block, outside every measured window.

The baseline is asked, then the candidate, then (for greedy divergence) the baseline again: on a server started anew
where the card restarts arms. What a pass brought back is kept in a working file until all have, so that a run that was
killed goes on with the next one; a pass that had begun is made again from its start. The tables hold digests of the
outputs, no texts; the working files go when the tables are written.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schema.digest import digest_file
from ..attempts import AttemptLog
from ..bundle import Bundle
from ..engines.fleet import Fleet, Running
from ..engines.launch import model_name
from ..files import write_bytes, write_parquet
from ..people import people_time
from ..plan.plan import Plan
from ..progress import Progress
from ..tokens.words import Words
from .ask import Asking, Limits, ask_all, empty_cache, gives_token_ids
from .body import GateBody
from .divergence import Output
from .items import Question, questions
from .passes import askings, gates_of, passes, place_of
from .table import as_frame, gate_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

#: a pass's outputs: gate -> for each repeat one an item
Found = dict[int, list[list[Output | None]]]


class Gates:
    """The gates of one run."""

    def __init__(self, bundle: Bundle, plan: Plan, log: AttemptLog, progress: Progress) -> None:
        self._bundle, self._plan, self._log, self._progress = bundle, plan, log, progress
        self._asked: dict[int, list[Question]] = {}
        self._done = 0
        self._begun = time.monotonic()

    def run(self, fleet: Fleet) -> None:
        """Ask every arm that has not been asked yet and write the tables. Does nothing on a card without gates, in a
        pilot, and where the tables are there. Raises SystemUnderTestError where a server does not come up."""
        card = self._plan.card
        if self._plan.is_pilot or not card.get("quality") or self._log.of_kind("quality_compared"):
            return
        (self._bundle.root / "quality").mkdir(exist_ok=True)
        self._asked = {index: questions(self._plan, index) for index in range(len(card["quality"]))}
        todo = [arm for arm in passes(card) if not self._is_over(arm)]
        left = sum(askings(card, arm) for arm in todo)
        for arm in todo:
            place = place_of(self._plan, arm)
            self._progress.phase("quality gates")
            self._progress.waiting(f"{arm}: starting the server")
            self._pass(arm, fleet.server_for(place), left)
            fleet.after_cell(place)
        self._compare()

    def _is_over(self, arm: str) -> bool:
        """Whether a pass has ended, and its working file is the one that it wrote."""
        path = self._working_file(arm)
        ended = [line for line in self._log.of_kind("quality_ended") if line["arm"] == arm]
        return bool(ended) and path.exists() and digest_file(path) == ended[-1]["answers_sha256"]

    def _working_file(self, arm: str) -> Path:
        return self._bundle.working_file(f"quality-{arm}.json")

    def _pass(self, arm: str, running: Running, left: int) -> None:
        card, begun = self._plan.card, time.monotonic()
        emptied = empty_cache(running.endpoint)
        self._log.append("quality_started", arm=arm, requests=askings(card, arm), cache_emptied=emptied)
        found = {index: self._gate(arm, running, index, left) for index in gates_of(card, arm)}
        kept = {
            str(index): [[None if output is None else output.as_json() for output in repeat] for repeat in repeats]
            for index, repeats in found.items()
        }
        write_bytes(self._working_file(arm), json.dumps(kept, separators=(",", ":")).encode())
        outcomes = Counter(output.outcome for output in _outputs(found) if output is not None)
        failed = {name: count for name, count in sorted(outcomes.items()) if name != "ok"}
        unsent = sum(output is None for output in _outputs(found))
        if not running.alive() and not running.death_noted:
            running.death_noted = True
            self._log.append(
                "server_died", arm=running.arm, block=running.block, cell=None, why="it exited while a gate asked it"
            )
        seconds = time.monotonic() - begun
        self._log.append(
            "quality_ended", arm=arm, seconds=round(seconds, 3), answered=outcomes["ok"], failed=failed, unsent=unsent,
            answers_sha256=digest_file(self._working_file(arm)),
        )  # fmt: skip
        told = f"; failed: {', '.join(f'{count} {name}' for name, count in failed.items())}" if failed else ""
        told += f"; {unsent} not asked in time" if unsent else ""
        self._progress.say(f"quality gates: {arm} answered {outcomes['ok']} prompts in {people_time(seconds)}{told}")

    def _gate(self, arm: str, running: Running, index: int, left: int) -> list[list[Output | None]]:
        """Ask one gate's prompts as often as it says."""
        card, row, asked = self._plan.card, self._plan.card["quality"][index], self._asked[index]
        words = Words.from_card(card, self._plan.inputs)
        body = GateBody(card, row, model_name(card), words, self._schema(row))
        if not gives_token_ids(running.endpoint, body.path(), body.whole(asked[0].prompt)):
            body = GateBody(card, row, model_name(card), words, self._schema(row), token_ids=False)
        each = [
            Asking(body.path(), body.whole(one.prompt), body.before(one.prompt) if row["reuse"] else None)
            for one in asked
        ]
        client = card["workload"]["client"]
        limits = Limits(row["concurrency"], client["timeout_connect"], client["timeout_total"], row["within"])
        found = ask_all(running.endpoint, each * row["repeats"], limits, lambda: self._ended(arm, left))
        return [found[start : start + len(each)] for start in range(0, len(found), len(each))]

    def _ended(self, arm: str, left: int) -> None:
        self._done += 1
        spent = time.monotonic() - self._begun
        to_go = people_time(spent / self._done * (left - self._done))
        self._progress.waiting(f"{arm}: {self._done} of {left} prompts asked in all; about {to_go} left")

    def _schema(self, row: dict[str, Any]) -> Any:
        return self._plan.inputs.json(row["json_schema"]) if row.get("json_schema") else None

    def _compare(self) -> None:
        """Write the table of each kind of gate; then the working files go."""
        card = self._plan.card
        tokenizer = Words.from_card(card, self._plan.inputs).tokenizer
        found = {arm: self._read(arm) for arm in passes(card)}
        files: dict[str, str] = {}
        for kind in dict.fromkeys(row["gate"] for row in card["quality"]):
            rows = [
                values
                for index, row in enumerate(card["quality"])
                if row["gate"] == kind
                for values in gate_rows(
                    row,
                    self._asked[index],
                    {arm: outputs[index] for arm, outputs in found.items() if index in outputs},
                    self._schema(row),
                    tokenizer,
                )
            ]
            path = self._bundle.quality(kind)
            write_parquet(path, as_frame(rows))
            files[path.relative_to(self._bundle.root).as_posix()] = digest_file(path)
        self._log.append("quality_compared", files=files)
        self._bundle.drop_unfinished("quality-*")

    def _read(self, arm: str) -> Found:
        kept = json.loads(self._working_file(arm).read_bytes())
        return {
            int(index): [[None if output is None else Output(**output) for output in repeat] for repeat in repeats]
            for index, repeats in kept.items()
        }


def _outputs(found: Found) -> Iterator[Output | None]:
    return (output for repeats in found.values() for repeat in repeats for output in repeat)
