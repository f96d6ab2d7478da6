"""The machine meanwhile: verdict.json's `telemetry`, and what of it might explain an effect.

None of it is a validity check. Where the machine itself was not the same for both arms, or not the same over the run,
that is said as a condition, by margins of our own that stand below; it is exploratory, and no word stands on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from . import wording
from .card import ARMS
from .cells import Reading, where
from .effect import t_interval
from .host import looks, undefined
from .host_quantities import BY_NAME, QUANTITIES
from .read import Cell
from .records import Record
from .window import measured_window

#: what of a machine could move a latency and is not the treatment's to choose -> (margin, relative to the baseline)
MARGINS: dict[str, tuple[float, bool]] = {
    "host.cpu_frequency": (0.02, True),
    "host.temperature": (5.0, False),
    "host.throttled": (0.01, False),
    "host.quota_throttled": (0.01, False),
    "host.cpu_steal": (0.01, False),
    "host.cpu_other": (0.05, False),
    "gpu.sm_clock": (0.02, True),
    "gpu.temperature": (5.0, False),
    "gpu.throttled": (0.01, False),
}
#: an order over the blocks that chance gives no more often than this is named
ORDER_P = 0.05
#: what a reader would look for -> the quantities that would tell it
_LOOKED_FOR = {
    "CPU frequency": ("host.cpu_frequency",),
    "temperature": ("host.temperature",),
    "thermal throttling": ("host.throttled", "host.throttles"),
    "power": ("host.power",),
    "accelerators": tuple(quantity.name for quantity in QUANTITIES if quantity.name.startswith("gpu.")),
}
NOT_TOLD = "not told by the machine"


def telemetry_rows(reading: Reading) -> list[Record]:
    """One row a used cell and quantity that the machine told; none where it was not looked at."""
    return [row for cell in reading.used() for row in _cell_rows(reading, cell.cell)]


def _cell_rows(reading: Reading, cell: Cell) -> list[Record]:
    frame = reading.bundle.host(cell)
    if frame is None or not frame.height:
        return []
    window, looked = measured_window(reading.bundle.client(cell)), looks(frame)
    rows = []
    for quantity in QUANTITIES:
        found = quantity.compute(looked, (0, 1) if window is None else (window.start, window.end))
        if found is None:
            continue
        found = found if window is not None else undefined("no measured window")
        value = {"mean": found.mean, "min": found.min, "max": found.max, "n": found.n, "undefined": found.undefined}
        rows.append({**where(cell), "metric": quantity.name, "unit": quantity.unit, **value})
    return rows


def condition_rows(reading: Reading, rows: Sequence[Record]) -> list[Record]:
    """What of the machine was not the same for both arms or over the blocks, and what it does not tell."""
    if not rows:
        return []
    found = []
    for name in MARGINS:
        mine = [row for row in rows if row["metric"] == name and row["mean"] is not None]
        apart, moved = _between_arms(reading, name, mine), _over_blocks(name, mine)
        title = BY_NAME[name].title
        found += [_condition(f"{title}: differs between the arms", apart)] if apart else []
        found += [_condition(f"{title}: moves over the blocks", moved)] if moved else []
    told = {row["metric"] for row in rows}
    silent = [what for what, names in _LOOKED_FOR.items() if not told.intersection(names)]
    if silent:
        text = f"{wording.listed(silent)}: the machine that benchcard ran on does not tell, or not to it"
        found.append({"name": NOT_TOLD, "value": text, "source": "unknown"})
    return found


def _condition(name: str, value: str) -> Record:
    return {"name": name, "value": value, "source": "observed"}


def _between_arms(reading: Reading, name: str, rows: Sequence[Record]) -> str | None:
    """Loads at which the arms' mean difference over the blocks goes beyond the margin."""
    kind = str(reading.bundle.card["workload"]["load_kind"])
    parts = []
    for load in dict.fromkeys(row["load"] for row in rows):
        by_arm = [
            {row["block"]: row["mean"] for row in rows if (row["arm"], row["load"]) == (arm, load)} for arm in ARMS
        ]
        blocks = sorted(by_arm[0].keys() & by_arm[1].keys())
        if not blocks:
            continue
        baseline, candidate = (np.array([values[block] for block in blocks]) for values in by_arm)
        d = candidate - baseline
        if abs(float(d.mean())) > _limit(name, float(baseline.mean())):
            level = float(reading.bundle.card["analysis"]["confidence"])
            parts.append(
                f"at {wording.load(load, kind)} {shown(name, float(baseline.mean()))} in the baseline and "
                f"{shown(name, float(candidate.mean()))} in the candidate, on average over "
                f"{wording.count(len(blocks), 'block')}{_interval(name, d, level)}"
            )
    if not parts:
        return None
    return f"{'; '.join(parts)}. Exploratory: it might explain part of the effect, or follow from the treatment"


def _interval(name: str, d: np.ndarray[tuple[int, ...], np.dtype[np.float64]], level: float) -> str:
    if len(d) < 2:
        return ""
    _, _, lower, upper = t_interval(d, level)
    ends = " to ".join(wording.signed(shown(name, value, as_difference=True)) for value in (lower, upper))
    return f" ({100 * level:g}% interval of the difference {ends})"


def _over_blocks(name: str, rows: Sequence[Record]) -> str | None:
    """A movement over the run, of the blocks' means: its Theil–Sen line from the first block to the last is longer than
    the margin, and Kendall's test finds such an order in no more than `ORDER_P` of random ones (Kendall 1938; Sen
    1968)."""
    blocks = sorted({row["block"] for row in rows})
    means = np.array([np.mean([row["mean"] for row in rows if row["block"] == block]) for block in blocks])
    if len(blocks) < 4 or np.ptp(means) == 0:
        return None
    slope = float(stats.theilslopes(means).slope)
    moved = slope * (len(blocks) - 1)
    p = float(stats.kendalltau(np.arange(len(blocks)), means).pvalue)
    if abs(moved) <= _limit(name, float(means.mean())) or not p <= ORDER_P:
        return None
    change = wording.signed(shown(name, moved, as_difference=True))
    return (
        f"by {change} from the first of {len(blocks)} blocks to the last (Theil–Sen), around "
        f"{shown(name, float(means.mean()))}. Exploratory: arms are compared within blocks, so it widens the interval "
        "of the effect rather than moves it"
    )


def _limit(name: str, base: float) -> float:
    margin, relative = MARGINS[name]
    return margin * abs(base) if relative else margin


def shown(name: str, value: float, as_difference: bool = False) -> str:
    """A value of a quantity with `MARGINS`, in people's units: `2.1 GHz`, `61 °C`, `3.2%` (a difference: `3.2 pt`)."""
    unit = BY_NAME[name].unit
    if unit == "1":
        return f"{100 * value:.1f}{' pt' if as_difference else '%'}"
    if unit == "Hz":
        return f"{value / 1e9:.2f} GHz"
    return f"{value:.1f} {unit}"
