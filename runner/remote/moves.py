"""Arms that move from server to server: the card's command is run, then every place is held against the card again.

A command that was begun and whose end nobody saw (the run was killed) is not blindly run again: where the places are
already what they should be, it has worked. A line in the log says where each arm is asked from then on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...schema.digest import digest_file
from ...schema.errors import SystemUnderTestError
from ..attempts import AttemptLog
from ..engines.fleet import Fleet
from ..engines.probe import Endpoint, Probe
from ..files import write_bytes
from ..plan.stages import Stage
from ..secrets import redact

#: the log's line when a stage's places are as they should be
LINES = {"aa": "aa_placed", "home": "aa_cleared", "swapped": "swapped"}
BEGUN = "command_begun"
#: what a stage's command is there for, on the terminal
_DOES = {"aa": "the baseline to both places", "home": "the arms to their places", "swapped": "the arms exchange places"}
#: seconds between two questions to a server that is not back yet
_POLL_S = 0.5


class Moves:
    """Brings the arms to their places. `moved` is called when they are to be looked at anew."""

    def __init__(self, logs: Path, log: AttemptLog, say: Callable[[str], None], moved: Callable[[], None]) -> None:
        self._logs = logs
        self._log = log
        self._say = say
        self._moved = moved

    def enter(self, stage: Stage, fleet: Fleet) -> None:
        """Make the stage's places those of the fleet. Raises SystemUnderTestError where the command fails, or a place
        is then not what the card says."""
        fleet.move(stage.places)
        self._moved()
        if stage.command is None or self._log.of_kind(LINES[stage.name]):
            return
        begun = [line for line in self._log.of_kind(BEGUN) if line["stage"] == stage.name]
        block = stage.blocks[0] if stage.blocks else 0
        found = bool(begun) and self._is_done(fleet, block)
        ran: dict[str, Any] = {"found": True} if found else self._command(stage, fleet, len(begun) + 1)
        if not found:
            self._verify(stage, fleet, block)
        places = {arm: endpoint.url for arm, endpoint in fleet.addresses().items()}
        self._log.append(LINES[stage.name], places=places, **ran)
        self._say("; ".join(f"{arm} at {url}" for arm, url in places.items()))

    def _verify(self, stage: Stage, fleet: Fleet, block: int) -> None:
        try:
            fleet.bring_up_all(block)
        except SystemUnderTestError as error:
            raise SystemUnderTestError(f"after {' '.join(stage.command or ())}: {error}") from None

    def _is_done(self, fleet: Fleet, block: int) -> bool:
        try:
            fleet.bring_up_all(block)
        except SystemUnderTestError:
            return False
        return True

    def _command(self, stage: Stage, fleet: Fleet, number: int) -> dict[str, Any]:
        assert stage.command is not None
        name, addresses = f"{stage.name}-{number}.log", fleet.addresses()
        self._log.append(BEGUN, stage=stage.name, command=list(stage.command))
        self._say(f"{_DOES[stage.name]}: running {' '.join(stage.command)}")
        begun = time.monotonic()
        code, output = _run(stage.command, _environment(addresses), stage.within)
        keys = [value.removeprefix("Bearer ") for x in addresses.values() for value in x.headers.values()]
        path = self._logs / name
        write_bytes(path, (redact(output, keys) or "").encode())
        if code != 0:
            how = f"was not over within {stage.within:g} s" if code is None else f"ended with exit code {code}"
            raise SystemUnderTestError(f"{' '.join(stage.command)} {how}; its output is in {path}")
        _await_answers(addresses, stage.within)
        seconds = time.monotonic() - begun
        return {"exit_code": code, "seconds": seconds, "output": name, "output_sha256": digest_file(path)}


def _environment(addresses: Mapping[str, Endpoint]) -> dict[str, str]:
    return os.environ | {f"BENCHCARD_{arm.upper()}_AT": endpoint.url for arm, endpoint in addresses.items()}


def _run(command: Any, environment: dict[str, str], within: float) -> tuple[int | None, str]:
    """The command's exit code, None if it took too long, and what it wrote. What it leaves running is left running."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(command), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SystemUnderTestError(f"{' '.join(command)}: cannot be started ({error.strerror})") from None
        try:
            code: int | None = process.wait(within)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


def _await_answers(addresses: Mapping[str, Endpoint], within: float) -> None:
    """Wait until every place answers; what it answers is judged later."""
    deadline = time.monotonic() + within
    for arm, endpoint in addresses.items():
        probe = Probe(endpoint)
        try:
            while True:
                try:
                    probe.models()
                    break
                except SystemUnderTestError as error:
                    if time.monotonic() > deadline:
                        raise SystemUnderTestError(f"{arm}: not back within {within:g} s: {error}") from None
                time.sleep(_POLL_S)
        finally:
            probe.close()
