"""What the charts have in common: colours, the channels of arms and loads, axes.

Arms differ by colour, dash and point shape, so that grey prints stay readable. Each function takes the module altair,
which is loaded only when something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

WIDTH = 340
ARM_COLOURS = {"baseline": "#5a6470", "candidate": "#0969da"}
THRESHOLD = "#b3261e"
GREY = "#8c959f"


def arm_channels(alt: Any, arms: Sequence[str]) -> dict[str, Any]:
    """The colour of each arm, as the channels of a chart."""
    colours = [ARM_COLOURS.get(arm, GREY) for arm in arms]
    return {"color": alt.Color("arm:N", scale=alt.Scale(domain=list(arms), range=colours))}


def shape_channel(alt: Any, arms: Sequence[str]) -> Any:
    """The shape of each arm's points."""
    return alt.Shape("arm:N", scale=alt.Scale(domain=list(arms), range=["circle", "triangle-up"][: len(arms)]))


def dash_channel(alt: Any, arms: Sequence[str]) -> Any:
    """The dash of each arm's lines."""
    return alt.StrokeDash("arm:N", scale=alt.Scale(domain=list(arms), range=[[5, 3], [1, 0]][: len(arms)]))


def data(alt: Any, rows: Sequence[Row]) -> Any:
    """Rows as the data of a chart."""
    # A tuple: Altair copies lists and dictionaries at each step of a chart.
    return alt.Data(values=tuple(dict(row) for row in rows))


def signed_axis(alt: Any, span: float, percent: bool, ticks: int, title: str) -> Any:
    """Signed labels, digits by the span; zero has no sign."""
    pattern = ("+.0%" if span > 0.1 else "+.1%") if percent else "+.3~g"
    zero = "datum.value === 0 ? '0' : datum.label"
    return alt.Axis(
        format=pattern, tickCount=ticks, title=title, labelExpr=zero, labelOverlap="parity", labelSeparation=6
    )


def load_channel(alt: Any, loads: Sequence[float], title: str) -> Any:
    """The loads from zero, a tick at each load that was run: nothing is said between them."""
    ticks = alt.Axis(title=title, values=[0, *sorted(set(loads))], labelOverlap=True)
    return alt.X("load:Q", scale=alt.Scale(domain=[0, max(loads) * 1.05], nice=False), axis=ticks)
