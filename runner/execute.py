"""The run: blocks in planned order, cells one by one, spares for blocks that cannot count."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..schema.digest import digest_file
from ..schema.errors import InterruptedRunError
from .analysis_process import CellChecks, pinned_analysis
from .attempts import AttemptLog
from .bundle import OPTIONAL_TELEMETRY, TELEMETRY, Bundle
from .client.sizing import demand, workers_of
from .descriptors import allow_many_descriptors
from .engines.fleet import Fleet, Running
from .engines.launch import is_cold_start, model_name
from .engines.probe import Probe
from .files import write_json
from .identity.observe import tokenizer_facts
from .identity.records import Records
from .identity.refusal import ENDED_BY_IDENTITY, SystemsDifferError, require_declared_systems
from .instrument.calibrate import calibrate, run_grid
from .instrument.certificate import short_of
from .instrument.point import Client
from .measure import Session, measure_cell
from .plan.blocks import Block, Cell
from .plan.exact import some_prompts
from .plan.plan import Plan
from .plan.stages import stages, with_spares
from .progress import Progress
from .quality.run import Gates
from .remote.moves import Moves
from .remote.preflight import Preflight
from .resumption import close_killed_cells
from .tokens.server import PROMPTS, check_server
from .tokens.words import Words
from .warm import prepare_cache


class Execution:
    """One sitting of a run: from the start, or resumed."""

    def __init__(self, bundle: Bundle, plan: Plan, log: AttemptLog, progress: Progress) -> None:
        self.bundle = bundle
        self.plan = plan
        self.log = log
        self.progress = progress
        self.session = Session(bundle, plan, time.monotonic_ns())
        self._checks: CellChecks | None = None
        self._preflight = Preflight(plan, progress.say)
        self._identities = Records(bundle, plan.card, log, self._preflight.fields)
        self._moves = Moves(bundle.logs, log, progress.say, self._preflight.moved)

    def run(self, *, resumed: bool) -> str:
        """Run what is left of the plan; returns why it ended: 'complete', 'no spare block left: …', or 'identity: …'
        where the systems turned out not to be the ones that the card declares.

        Raises SystemUnderTestError if a server does not start or match, InterruptedRunError on Ctrl-C: in both cases
        the run can be resumed.
        """
        self._open(resumed)
        allow_many_descriptors()
        with (
            self._fleet() as fleet,
            pinned_analysis(self.bundle) as analysis,
            analysis.cell_checks(self.bundle) as checks,
        ):
            self._checks = checks
            try:
                self._calibrate()
                why = self._blocks(fleet)
                if why == "complete":
                    Gates(self.bundle, self.plan, self.log, self.progress).run(fleet)
            except SystemsDifferError as refused:
                why = f"{ENDED_BY_IDENTITY}{refused}"
            except KeyboardInterrupt:
                raise InterruptedRunError(
                    f"interrupted; what is finished stays. Go on with: benchcard run --resume {self.bundle.root}"
                ) from None
        self.log.append("run_ended", why=why)
        return why

    def _open(self, resumed: bool) -> None:
        clock = {"epoch_ns": self.session.epoch_ns, "wall_ns": time.time_ns()}
        if not resumed:
            self.log.append(
                "run_started",
                run=self.bundle.name,
                card_digest=self.plan.card_digest,
                plan_digest=self.plan.digest(),
                revision=self.plan.card["analysis"]["revision"],
                **({"pilot": True} if self.plan.is_pilot else {}),
                **clock,
            )
            return
        self.log.append("run_resumed", **clock)
        close_killed_cells(self.session, self.log)

    def _calibrate(self) -> None:
        """Before the first cell of a sitting: what the instrument can be trusted with, here and now."""
        card = self.plan.card
        number = len(self.log.of_kind("calibrated")) + 1
        self.progress.say("measuring the instrument")
        error = card["validity"].get("client_error", math.inf)
        found = calibrate(run_grid(demand(card)), Client(workers_of(card)), error_s=error)
        path = self.bundle.certificate(number)
        path.parent.mkdir(exist_ok=True)
        write_json(path, found)
        self.log.append("calibrated", certificate=number, sha256_of_file=digest_file(path))
        self.session = replace(self.session, certificate=number)
        for cost in found["client"]["costs"]:
            self.progress.say(f"the client has {cost}")
        short = short_of(found["points"], error, demand(card))
        if short is not None:
            self.progress.say(f"the card asks for {short}: cells beyond that are invalid (certified_load)")

    @contextmanager
    def _fleet(self) -> Iterator[Fleet]:
        fleet = Fleet(self.plan.card, self.bundle.logs, self._verify, self.log.append)
        try:
            yield fleet
        finally:
            fleet.stop_all()

    def _verify(self, running: Running, probe: Probe) -> None:
        """The server is what the card says; what it is beside that is written down."""
        card = self.plan.card
        self._preflight.look(running)
        words = Words.from_card(card, self.plan.inputs)
        unsure = check_server(words, some_prompts(self.plan, PROMPTS), model_name(card), running.arm, probe)
        self._identities.started(running, probe, tokenizer_facts(card, unsure))

    def _blocks(self, fleet: Fleet) -> str:
        """Planned blocks, then as many spares as blocks were lost: stage by stage, where the arms move between servers.
        An A/A block has a spare of its own; without one it is left out, and the run goes on."""
        replaced = {line["block"] for line in self.log.of_kind("block_replaced", "block_lost")}
        used_spares = [line["by"] for line in self.log.of_kind("block_replaced")]
        spares = [block for block in self.plan.blocks if block.spare and block.block not in used_spares]
        by_number = {block.block: block for block in self.plan.blocks}
        queues = {
            stage.name: [by_number[number] for number in with_spares(stage, self.log.of_kind("block_replaced"))]
            for stage in stages(self.plan)
        }
        due = [block for queue in queues.values() for block in queue if block.block not in replaced]
        self.progress.expect(sum(not self._is_over(cell) for block in due for cell in block.cells))
        for stage in stages(self.plan):
            self._moves.enter(stage, fleet)
            why = self._stage(fleet, [block for block in queues[stage.name] if block.block not in replaced], spares)
            if why is not None:
                return why
        return "complete"

    def _stage(self, fleet: Fleet, queue: list[Block], spares: list[Block]) -> str | None:
        """The blocks of a stage and the spares of those that are lost; returns why the run ends, or None."""
        while queue:
            block = queue.pop(0)
            why = self._block(fleet, block)
            if why is None:
                continue
            self.progress.more(-sum(not self._is_over(cell) for cell in block.cells))
            spare = next((spare for spare in spares if spare.aa == block.aa), None)
            if spare is None and block.aa:
                self.log.append("block_lost", block=block.block, why=why)
                self.progress.say(
                    f"A/A block {block.block} cannot count ({why}), and no spare is left: there is one less"
                )
                continue
            if spare is None:
                self.progress.say(f"block {block.block} cannot count ({why}), and no spare block is left: the run ends")
                return f"no spare block left: {why}"
            spares.remove(spare)
            self.log.append("block_replaced", block=block.block, by=spare.block, why=why)
            self.progress.say(f"block {block.block} cannot count ({why}); spare block {spare.block} replaces it")
            queue.append(spare)
            self.progress.more(len(spare.cells))
        return None

    def _is_over(self, cell: Cell) -> bool:
        return any(line["cell"] == cell.cell for line in self.log.of_kind("cell_ended", "cell_killed"))

    def _block(self, fleet: Fleet, block: Block) -> str | None:
        """Run the cells of a block that are not over yet; returns why it cannot count, or None."""
        for cell in block.cells:
            line = next((x for x in self.log.of_kind("cell_ended", "cell_killed") if x["cell"] == cell.cell), None)
            if line is None:
                line = self._cell(fleet, cell)
            if line["kind"] == "cell_killed":
                return f"cell {cell.cell} was killed"
            if not line["valid"]:
                failed = ", ".join(check["name"] for check in line["checks"] if not check["passed"])
                return f"cell {cell.cell} is invalid: {failed}"
        return None

    def _cell(self, fleet: Fleet, cell: Cell) -> dict[str, Any]:
        self.progress.waiting(f"{cell.cell}: starting the server")
        pause, cold = self.plan.card["method"]["pause_between_cells"], is_cold_start(self.plan.card)
        if cold:
            # A server whose first requests are measured is not left idle before them.
            time.sleep(pause)
        running = fleet.server_for(cell)
        if not cold:
            time.sleep(pause)
        self._identities.before(cell, running)
        assert self._checks is not None
        require_declared_systems(self._checks, cell, self.bundle, self.log, self.progress)
        self.progress.cell(cell)
        prepared = prepare_cache(self.plan, cell, running)
        if prepared is not None:
            self.log.append("cache_prepared", cell=cell.cell, **prepared)
        place = {} if running.place is None else {"url": running.endpoint.url}
        self.log.append("cell_started", cell=cell.cell, **place)
        events = measure_cell(self.session, cell, running, self.progress)
        if not running.alive():
            self._note_death(cell, running)
        checks = [
            {key: check[key] for key in ("name", "passed", "observed", "limit")}
            for check in self._checks.ask(cell.cell)
        ]
        valid = all(check["passed"] for check in checks)
        line = self.log.append(
            "cell_ended", cell=cell.cell, **cell_digests(self.bundle, cell), valid=valid, checks=checks
        )
        failed = sum(1 for outcome in events["outcome"] if outcome not in ("ok", "cancelled"))
        self.progress.ended(len(events), failed, "" if valid else "INVALID")
        fleet.after_cell(cell)
        return line

    def _note_death(self, cell: Cell, running: Running) -> None:
        """The server of a cell is gone at its end: its attempts count as what they are."""
        assert running.process is not None
        running.death_noted = True
        why = f"the server exited with code {running.process.exit_code()} while the cell ran"
        self.log.append("server_died", arm=cell.arm, block=cell.block, cell=cell.cell, why=why)
        self.progress.say(f"{cell.cell}: {why}; its attempts are failures and count")


def cell_digests(bundle: Bundle, cell: Cell) -> dict[str, str]:
    """The digests of a cell's files, for the line that says it ended."""
    digests = {"events_sha256": digest_file(bundle.events(cell.cell))}
    for kind in TELEMETRY:
        path = bundle.telemetry(kind, cell.cell)
        # Only a cold start has the start of its server among its files, and virtual time has no host.
        if path.exists() or kind not in OPTIONAL_TELEMETRY:
            digests[f"{kind}_sha256"] = digest_file(path)
    if (identity := bundle.cell_identity(cell.cell)).exists():
        digests["identity_sha256"] = digest_file(identity)
    return digests
