"""The servers of a run: which is up when, by the card's restart policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...schema.errors import SystemUnderTestError
from ..client.wire import Target
from ..plan.blocks import Cell, arms_run, declared_arm
from ..secrets import read_key, redactor
from .launch import HOST, is_cold_start, launch, local_argv, model_name, requested_port
from .listener import older_listener
from .probe import Endpoint, Probe
from .process import ServerProcess, free_port, port_in_use

#: seconds between two looks at a server that is starting
_POLL_S = 0.1
#: the same where the start is what is measured: no time is known better than to the distance between two looks
_POLL_COLD_S = 0.01


@dataclass(frozen=True)
class Start:
    """When a server was launched, when the last look began that found it not ready, and when its answer came that it
    was ready; monotonic ns."""

    launched_ns: int
    looked_ns: int | None
    ready_ns: int


@dataclass
class Running:
    """A server that is up and is what the card says. `process` and `start` are None for one that somebody else runs;
    its `place` is the arm whose server it is on the card."""

    arm: str
    block: int
    endpoint: Endpoint
    target: Target
    process: ServerProcess | None
    argv: list[str] | None
    env: dict[str, str]
    death_noted: bool = False
    start: Start | None = None
    place: str | None = None

    def alive(self) -> bool:
        """Whether its process still runs (an external one is taken to)."""
        return self.process is None or self.process.alive()


Verify = Callable[[Running, Probe], None]
Note = Callable[..., Any]


class Fleet:
    """Starts and stops the arms' servers. `verify` looks at each one that came up and raises if it is not the card's;
    `note(kind, **fields)` writes to the attempt log."""

    def __init__(self, card: dict[str, Any], logs: Path, verify: Verify, note: Note) -> None:
        self._card = card
        self._logs = logs
        self._verify = verify
        self._note = note
        self._up: dict[str, Running] = {}
        self._external = card["system"]["engine"]["kind"] == "openai"
        self._policy = card["system"]["launch"]["restart"]
        self._poll_s = _POLL_COLD_S if is_cold_start(card) else _POLL_S
        self._places: Mapping[str, str] = {arm: declared_arm(arm) for arm in arms_run(card)}

    def move(self, places: Mapping[str, str]) -> None:
        """From now on each arm is asked at the server of the arm that `places` says; every one is verified again."""
        if places != self._places:
            self.stop_all()
            self._places = places

    def addresses(self) -> dict[str, Endpoint]:
        """Where each arm is asked, where somebody else runs its server."""
        return {arm: self._endpoint(place) for arm, place in self._places.items()}

    def bring_up_all(self, block: int) -> None:
        """Find and verify every arm's server now. Raises SystemUnderTestError."""
        for arm in self._places:
            self._bring_up(arm, block)

    def server_for(self, cell: Cell) -> Running:
        """The server for this cell: one that is up and may stay, or a new one. Raises SystemUnderTestError."""
        if self._policy == "never" or self._external:
            # All of them from the start, so that no block has another neighbour than the others, and that nothing is
            # measured where one is not what the card says.
            self.bring_up_all(cell.block)
            return self._up[cell.arm]
        running = self._up.get(cell.arm)
        if running is not None and self._policy == "each_arm_in_block":
            others = [arm for arm in self._up if arm != cell.arm]
            if running.block != cell.block or others:
                self.stop_all()
        else:
            self.stop_all()
        return self._bring_up(cell.arm, cell.block)

    def after_cell(self, cell: Cell) -> None:
        """The cell is over: with `each_cell` its server goes."""
        if self._policy == "each_cell" and not self._external:
            self._stop(cell.arm)

    def stop_all(self) -> None:
        """Stop every server of this run."""
        for arm in list(self._up):
            self._stop(arm)

    def _bring_up(self, arm: str, block: int) -> Running:
        running = self._up.get(arm)
        if running is not None:
            if running.alive():
                return running
            if not running.death_noted:
                self._note("server_died", arm=arm, block=running.block, cell=None, why="it exited between cells")
            self._stop(arm)
        running = self._external_server(arm, block) if self._external else self._start(arm, block)
        self._up[arm] = running
        probe = Probe(running.endpoint)
        try:
            self._verify(running, probe)
            probe.require_endpoint(self._card["workload"]["endpoint"])
        except BaseException:
            self.stop_all()
            raise
        finally:
            probe.close()
        return running

    def _external_server(self, arm: str, block: int) -> Running:
        place = self._places[arm]
        endpoint = self._endpoint(place)
        target = Target.from_url(endpoint.url, endpoint.headers)
        return Running(arm, block, endpoint, target, None, None, {}, place=place)

    def _endpoint(self, place: str) -> Endpoint:
        server = self._card["arms"][place]["server"]
        key = read_key(server["api_key"])
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = server["url"]
        return Endpoint(url, server["metrics"] or url.removesuffix("/v1") + "/metrics", headers)

    def _start(self, arm: str, block: int) -> Running:
        port = requested_port(self._card, arm)
        if port is not None and port_in_use(port):
            raise SystemUnderTestError(
                f"{arm}: port {port} is in use by another process, so its server cannot be the one that answers; "
                "stop that process or change the card's flags.port"
            )
        port = port or free_port()
        log = self._logs / f"{arm}-b{block:02d}.log"
        spec = launch(self._card, arm, port, str(self._logs / f"{arm}-b{block:02d}.engine.jsonl"))
        process = ServerProcess(spec.argv, spec.env, log)
        endpoint = Endpoint(spec.url, spec.url.removesuffix("/v1") + "/metrics")
        try:
            start = self._wait_ready(arm, process, endpoint)
        except BaseException:
            process.stop()
            raise
        self._note(
            "server_started",
            arm=arm,
            block=block,
            pid=process.pid,
            argv=redactor().argv(local_argv(spec.argv)),
            model=model_name(self._card),
        )
        target = Target(HOST, port, False, "/v1")
        return Running(arm, block, endpoint, target, process, spec.argv, spec.env, start=start)

    def _wait_ready(self, arm: str, process: ServerProcess, endpoint: Endpoint) -> Start:
        limit = self._card["system"]["launch"]["ready_within"]
        deadline = time.monotonic() + limit
        probe = Probe(endpoint)
        looked, asked = None, time.monotonic_ns()
        try:
            while not probe.healthy():
                looked = asked
                if not process.alive():
                    why = f"{arm}: the server exited with code {process.exit_code()} before it was ready"
                elif time.monotonic() > deadline:
                    why = f"{arm}: the server was not ready within {limit:g} s"
                else:
                    time.sleep(self._poll_s)
                    asked = time.monotonic_ns()
                    continue
                raise SystemUnderTestError(f"{why}; the end of its log ({process.log.name}):\n{process.log_tail()}")
            ready = time.monotonic_ns()
            if not process.alive() or process.launched_ns is None or process.pid is None:
                raise SystemUnderTestError(f"{arm}: another server answers on the port: the one started has exited")
            other = older_listener(urlsplit(endpoint.url).port or 0, process.pid)
            if other is not None:
                raise SystemUnderTestError(
                    f"{arm}: another server answers on the port: process {other}, which is older than the one started"
                )
            return Start(process.launched_ns, looked, ready)
        finally:
            probe.close()

    def _stop(self, arm: str) -> None:
        running = self._up.pop(arm)
        if running.process is not None:
            running.process.stop()
            self._note("server_stopped", arm=arm, block=running.block, exit_code=running.process.exit_code())
