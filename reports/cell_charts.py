"""The charts of what went on in the cells: latencies, distributed and over the window, and the machine. Rows in, static
SVG out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .encodings import ARM_COLOURS, GREY, THRESHOLD, WIDTH, Row, arm_channels, dash_channel, data, shape_channel
from .svg import draw


def latency_ecdf(
    rows: Sequence[Row], arms: Sequence[str], axis: str, objective: float | None, chart_id: str, title: str
) -> str:
    """ECDFs of one latency, a panel a load. Rows: arm, load (label), percentile, value (in the axis's unit), and where
    there is an interval lower and upper (the same unit), between which a band is drawn."""
    import altair as alt

    values = sorted(row["value"] for row in rows)
    wide = values[0] > 0 and values[-1] > 20 * values[len(values) // 2]
    low, high = values[0], max([values[-1]] + ([objective] if objective is not None else []))
    if low == high:
        low, high = low * 0.9, high * 1.1 or 1.0
    scale = alt.Scale(type="log", domain=[low, high]) if wide else alt.Scale(domain=[0, high * 1.03], nice=False)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=axis, tickCount=6))
    y = alt.Y("percentile:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(title="share", format=".0%", tickCount=4))
    charts = []
    for label in dict.fromkeys(row["load"] for row in rows):
        mine = [row for row in rows if row["load"] == label]
        banded = [row for row in mine if row.get("lower") is not None and row.get("upper") is not None]
        layers = _bands(alt, banded, arms, x, y)
        if objective is not None:
            rule = alt.Chart(data(alt, [{"value": objective}]))
            layers.append(rule.mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5).encode(x=x))
        layers.append(
            alt.Chart(data(alt, mine))
            .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
            .encode(x=x, y=y, strokeDash=dash_channel(alt, arms), **arm_channels(alt, arms))
        )
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=110, title=str(label)))
    return draw(alt.vconcat(*charts), chart_id, title)


def _bands(alt: Any, rows: Sequence[Row], arms: Sequence[str], x: Any, y: Any) -> list[Any]:
    """The area between lower and upper of each arm's values, beneath its line; `x` is the channel of `value`. Their
    colours are set and not encoded, so that the legend shows the lines."""
    layers = []
    for arm in arms:
        mine = [{**row, "value": row["lower"]} for row in rows if row["arm"] == arm]
        style = {"color": ARM_COLOURS.get(arm, GREY), "opacity": 0.22, "clip": True}
        area = alt.Chart(data(alt, mine)).mark_area(orient="horizontal", interpolate="step-before", **style)
        layers += [area.encode(x=x, x2="upper:Q", y=y)] if mine else []
    return layers


def latency_by_index(rows: Sequence[Row], arms: Sequence[str], axis: str, chart_id: str, title: str) -> str:
    """A latency over the window, a panel a load: a thin line a cell, a thick one for the mean over its arm's blocks.
    Rows: arm, block, load (label), batch, index (of the request), value (in the axis's unit)."""
    import altair as alt

    charts = []
    for label in dict.fromkeys(row["load"] for row in rows):
        mine = [row for row in rows if row["load"] == label]
        values = sorted(row["value"] for row in mine)
        wide = values[0] > 0 and values[-1] > 20 * values[len(values) // 2]
        low, high = (values[0], values[-1]) if wide else (0, values[-1] * 1.03 or 1.0)
        scale = alt.Scale(type="log" if wide else "linear", domain=[low, high], nice=False)
        window = alt.Scale(domain=[0, max(row["index"] for row in mine)], nice=False)
        x = alt.X("index:Q", title="request", scale=window, axis=alt.Axis(tickCount=6, grid=False))
        y = alt.Y("value:Q", scale=scale, axis=alt.Axis(title=axis, tickCount=4))
        means = []
        for arm, batch in dict.fromkeys((row["arm"], row["batch"]) for row in mine):
            here = [row for row in mine if (row["arm"], row["batch"]) == (arm, batch)]
            means.append({"arm": arm} | {key: sum(row[key] for row in here) / len(here) for key in ("index", "value")})
        # the legend shows the thick lines: the thin ones are too pale to be told apart in it
        legend = alt.Legend(symbolOpacity=1, symbolStrokeWidth=2.5)
        colour, dash = arm_channels(alt, arms)["color"].legend(legend), dash_channel(alt, arms).legend(legend)
        channels = {"x": x, "y": y, "strokeDash": dash, "color": colour}
        cells = alt.Chart(data(alt, mine)).mark_line(strokeWidth=1, opacity=0.35)
        thick = alt.Chart(data(alt, means)).mark_line(strokeWidth=2.5)
        layers = [cells.encode(detail="block:N", **channels), thick.encode(**channels)]
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=130, title=str(label)))
    return draw(alt.vconcat(*charts), chart_id, title)


def machine_by_block(rows: Sequence[Row], arms: Sequence[str], chart_id: str, title: str) -> str:
    """Quantities of the machine over the blocks, a panel each: a point a cell at its mean, a thin bar from its least to
    its most, and a line through the cells of an arm at one load. Rows: panel (its heading), arm, block, load, value,
    low, high (in the panel's unit)."""
    import altair as alt

    charts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        mine = [row for row in rows if row["panel"] == panel]
        low, high = min(row["low"] for row in mine), max(row["high"] for row in mine)
        pad = 0.06 * (high - low) or abs(high) * 0.05 or 1.0
        scale = alt.Scale(domain=[low - (pad if low < 0 or low > pad else low), high + pad], nice=False)
        axis = alt.Axis(title=None, tickCount=4)
        x = alt.X("block:O", title="block", axis=alt.Axis(labelAngle=0, grid=False))
        offset = alt.XOffset("arm:N", sort=list(arms))
        base = alt.Chart(data(alt, mine)).encode(x=x, xOffset=offset, **arm_channels(alt, arms))
        line = base.mark_line(strokeWidth=1, opacity=0.6).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis), detail="load:N", strokeDash=dash_channel(alt, arms)
        )
        bars = base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(
            y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"
        )
        points = base.mark_point(filled=True, size=45, opacity=1).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis), shape=shape_channel(alt, arms)
        )
        charts.append(alt.layer(line, bars, points).properties(width=WIDTH, height=80, title=str(panel)))
    return draw(alt.vconcat(*charts), chart_id, title)
