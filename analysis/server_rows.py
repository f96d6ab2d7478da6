"""What the servers said, and how it fits what the client saw: the rows of verdict.json and inference_baseline.json."""

from __future__ import annotations

from dataclasses import replace

from .card import ARMS
from .cells import Reading, where
from .client_and_server import crosscheck_rows
from .records import Record
from .server_cell import ServerCell
from .server_metrics import Told, server
from .servers import behind_a_balancer


def server_rows(reading: Reading) -> Record:
    """verdict.json's server (of the used cells) and crosscheck (of every cell that was run); none of the two where no
    cell has anything of its server."""
    used = reading.used()
    told = [cell for block in reading.blocks for cell in block.cells if cell is not None]
    if all(cell.server is None for cell in told):
        return {}
    why = {arm: behind_a_balancer(reading.bundle, arm) for arm in ARMS}
    places: dict[tuple[str, int, float], list[Told]] = {}
    for result in sorted(used, key=lambda result: (ARMS.index(result.cell.arm), result.cell.load_point)):
        at = (result.cell.arm, result.cell.load_point, result.cell.load)
        places.setdefault(at, []).append((result.cell.cell, _alone(result.server, why[result.cell.arm])))
    return {
        "server": server(places),
        "crosscheck": crosscheck_rows((where(result.cell), result.compared) for result in told),
    }


def _alone(cell: ServerCell | None, why: str | None) -> ServerCell | None:
    """What the server told, or, where that is of one of several servers, nothing but why."""
    return cell if cell is None or why is None else replace(cell, changes={}, gauges={}, reset=why)
