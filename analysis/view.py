"""What the checks of a cell look at."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .compared import Compared
from .read import Cell
from .records import Record
from .server_cell import ServerCell
from .window import Window


@dataclass(frozen=True)
class CellView:
    """What the checks look at: the cell's events (all, and the counted ones), its planned requests, the client's
    telemetry, the certificate of the instrument, the server's own metrics (samples, and what they tell), the start of
    the cell's server where the card measures it, and client against server."""

    card: Record
    cell: Cell
    events: pl.DataFrame
    counted: pl.DataFrame
    planned: pl.DataFrame
    client: Record | None
    window: Window | None
    certificate: Record | None = None
    server: pl.DataFrame | None = None
    start: Record | None = None
    told: ServerCell | None = None
    compared: tuple[Compared, ...] = ()

    @property
    def open_loop(self) -> bool:
        """Requests start when the schedule says so, whatever the server does."""
        return bool(self.card["workload"]["arrivals"].get("process") != "closed")


#: what a check saw: (number, None), or (None, why there is none)
Observation = tuple[float | None, str | None]

NO_TELEMETRY: Observation = (None, "no client telemetry")
