"""The charts: rows in, static SVG out. Arms differ by colour, dash and point shape, so that grey prints stay readable.

Widths are small (about 440 px with the axis), so that the letters can still be read on a telephone; the page enlarges
them where there is room. Every chart stands on white, in the dark as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .svg import draw

Row = Mapping[str, Any]

WIDTH = 340
ARM_COLOURS = {"baseline": "#5a6470", "candidate": "#0969da"}
THRESHOLD = "#b3261e"
_GREY = "#8c959f"


def _arm_channels(alt: Any, arms: Sequence[str]) -> dict[str, Any]:
    colours = [ARM_COLOURS.get(arm, _GREY) for arm in arms]
    return {"color": alt.Color("arm:N", scale=alt.Scale(domain=list(arms), range=colours))}


def _shape(alt: Any, arms: Sequence[str]) -> Any:
    return alt.Shape("arm:N", scale=alt.Scale(domain=list(arms), range=["circle", "triangle-up"][: len(arms)]))


def _dash(alt: Any, arms: Sequence[str]) -> Any:
    return alt.StrokeDash("arm:N", scale=alt.Scale(domain=list(arms), range=[[5, 3], [1, 0]][: len(arms)]))


def _data(alt: Any, rows: Sequence[Row]) -> Any:
    # A tuple: Altair copies lists and dictionaries at each step of a chart.
    return alt.Data(values=tuple(dict(row) for row in rows))


def _signed_axis(alt: Any, span: float, percent: bool, ticks: int, title: str) -> Any:
    """Signed labels, digits by the span; zero has no sign."""
    pattern = ("+.0%" if span > 0.1 else "+.1%") if percent else "+.3~g"
    zero = "datum.value === 0 ? '0' : datum.label"
    return alt.Axis(
        format=pattern, tickCount=ticks, title=title, labelExpr=zero, labelOverlap="parity", labelSeparation=6
    )


def _load_channel(alt: Any, loads: Sequence[float], title: str) -> Any:
    """The loads from zero, a tick at each load that was run: nothing is said between them."""
    ticks = alt.Axis(title=title, values=[0, *sorted(set(loads))], labelOverlap=True)
    return alt.X("load:Q", scale=alt.Scale(domain=[0, max(loads) * 1.05], nice=False), axis=ticks)


def effect_intervals(rows: Sequence[Row], axis: str, percent: bool, chart_id: str, title: str) -> str:
    """Interval bars. Rows: label, mean, low, high, threshold, claimed (a fraction where `percent`)."""
    import altair as alt

    values = [row[key] for row in rows for key in ("low", "high", "threshold")] + [0.0]
    span = max(values) - min(values) or 1.0
    scale = alt.Scale(domain=[min(values) - 0.06 * span, max(values) + 0.06 * span], nice=False)
    style = _signed_axis(alt, span, percent, 6, axis)
    y = alt.Y("label:N", sort=[row["label"] for row in rows], title=None, axis=alt.Axis(labelLimit=170))
    base = alt.Chart(_data(alt, rows)).encode(y=y)
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["claimed", "exploratory"], range=[ARM_COLOURS["candidate"], _GREY]),
    )
    bars = base.mark_rule(strokeWidth=5, strokeCap="round").encode(
        x=alt.X("low:Q", scale=scale, axis=style), x2="high:Q", color=colour
    )
    points = base.mark_point(filled=True, size=110, opacity=1, stroke="#ffffff", strokeWidth=1.5).encode(
        x=alt.X("mean:Q", scale=scale), color=colour
    )
    zero = alt.Chart(_data(alt, [{"x": 0.0}])).mark_rule(color="#30363d", strokeWidth=1).encode(x="x:Q")
    marks = [alt.Chart(_data(alt, [{"x": x, "name": "threshold"} for x in sorted({row["threshold"] for row in rows})]))]
    lines = [mark.mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5).encode(x="x:Q") for mark in marks]
    names = [
        mark.mark_text(color=THRESHOLD, fontSize=12, dy=-8, baseline="bottom").encode(
            x="x:Q", y=alt.value(0), text="name:N"
        )
        for mark in marks
    ]
    chart = alt.layer(zero, *lines, bars, points, *names).properties(width=WIDTH - 60, height=38 * len(rows) + 14)
    return draw(chart, chart_id, title)


def block_effects(rows: Sequence[Row], axis: str, percent: bool, chart_id: str, title: str) -> str:
    """Each block's d at each load, on a scale of the load's own. Rows: load (label), block, d, mean, threshold."""
    import altair as alt

    charts = []
    for label in dict.fromkeys(row["load"] for row in rows):
        mine = [row for row in rows if row["load"] == label]
        values = [row[key] for row in mine for key in ("d", "threshold")] + [0.0]
        span = max(values) - min(values) or 1.0
        scale = alt.Scale(domain=[min(values) - 0.08 * span, max(values) + 0.08 * span], nice=False)
        style = _signed_axis(alt, span, percent, 5, axis)
        first = _data(alt, mine[:1])
        points = (
            alt.Chart(_data(alt, mine))
            .mark_point(filled=True, size=80, opacity=1, color=ARM_COLOURS["candidate"])
            .encode(
                x=alt.X("block:O", title="block", axis=alt.Axis(labelAngle=0)), y=alt.Y("d:Q", scale=scale, axis=style)
            )
        )
        layers = [
            alt.Chart(_data(alt, [{"y": 0.0}])).mark_rule(color="#30363d").encode(y="y:Q"),
            alt.Chart(first).mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5).encode(y="threshold:Q"),
            alt.Chart(first).mark_rule(color=ARM_COLOURS["candidate"], strokeWidth=1.5).encode(y="mean:Q"),
            points,
        ]
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=130, title=str(label)))
    return draw(alt.vconcat(*charts), chart_id, title)


def goodput_curve(
    points: Sequence[Row], arms: Sequence[str], axis: str, diagonal: bool, chart_id: str, title: str
) -> str:
    """Goodput against offered load. Rows: arm, block, load, goodput. `diagonal` draws y = x, all requests good."""
    import altair as alt

    means = []
    for arm in arms:
        for load in sorted({row["load"] for row in points if row["arm"] == arm}):
            here = [row["goodput"] for row in points if row["arm"] == arm and row["load"] == load]
            means.append({"arm": arm, "load": load, "goodput": sum(here) / len(here)})
    top = max(row["load"] for row in points)
    high = max([row["goodput"] for row in points] + ([top] if diagonal else []))
    x = _load_channel(alt, [row["load"] for row in points], axis)
    y = alt.Y("goodput:Q", title="goodput, req/s", scale=alt.Scale(domain=[0, (high or 1) * 1.05], nice=False))
    channels = _arm_channels(alt, arms)
    layers = []
    if diagonal:
        ends = [{"load": 0.0, "goodput": 0.0}, {"load": top * 1.05, "goodput": top * 1.05}]
        layers.append(alt.Chart(_data(alt, ends)).mark_line(color=_GREY, strokeWidth=1, clip=True).encode(x=x, y=y))
        name = [{"load": top * 0.92, "goodput": top * 0.92, "name": "y = x: every request good"}]
        layers.append(
            alt.Chart(_data(alt, name))
            .mark_text(color="#57606a", align="right", dx=-8, dy=-4, fontSize=11)
            .encode(x=x, y=y, text="name:N")
        )
    layers.append(
        alt.Chart(_data(alt, means)).mark_line(strokeWidth=2).encode(x=x, y=y, strokeDash=_dash(alt, arms), **channels)
    )
    layers.append(
        alt.Chart(_data(alt, points))
        .mark_point(filled=True, opacity=0.65, size=55)
        .encode(x=x, y=y, shape=_shape(alt, arms), **channels)
    )
    return draw(alt.layer(*layers).properties(width=WIDTH, height=250), chart_id, title)


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
            rule = alt.Chart(_data(alt, [{"value": objective}]))
            layers.append(rule.mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5).encode(x=x))
        layers.append(
            alt.Chart(_data(alt, mine))
            .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
            .encode(x=x, y=y, strokeDash=_dash(alt, arms), **_arm_channels(alt, arms))
        )
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=110, title=str(label)))
    return draw(alt.vconcat(*charts), chart_id, title)


def _bands(alt: Any, rows: Sequence[Row], arms: Sequence[str], x: Any, y: Any) -> list[Any]:
    """The area between lower and upper of each arm's values, beneath its line; `x` is the channel of `value`. Their
    colours are set and not encoded, so that the legend shows the lines."""
    layers = []
    for arm in arms:
        mine = [{**row, "value": row["lower"]} for row in rows if row["arm"] == arm]
        style = {"color": ARM_COLOURS.get(arm, _GREY), "opacity": 0.22, "clip": True}
        area = alt.Chart(_data(alt, mine)).mark_area(orient="horizontal", interpolate="step-before", **style)
        layers += [area.encode(x=x, x2="upper:Q", y=y)] if mine else []
    return layers


def attainment_bounds(
    rows: Sequence[Row], arms: Sequence[str], target: float, axis: str, chart_id: str, title: str
) -> str:
    """Attainment and its lower bound at each load, against the target; nothing is drawn between loads. Rows: arm, load
    (label, in the order of the loads), attainment, lower."""
    import altair as alt

    low = min([row["lower"] for row in rows] + [target])
    span = 1 - low or 0.01
    scale = alt.Scale(domain=[max(0.0, low - 0.05 * span), 1 + 0.03 * span], nice=False)
    pattern = ".0%" if span > 0.1 else ".1%" if span > 0.01 else ".2%"
    y_axis = alt.Axis(title="attainment", format=pattern, tickCount=6)
    y = alt.Y("attainment:Q", scale=scale, axis=y_axis)
    x = alt.X("load:O", sort=list(dict.fromkeys(row["load"] for row in rows)), axis=alt.Axis(title=axis, labelAngle=0))
    base = alt.Chart(_data(alt, rows)).encode(
        x=x, xOffset=alt.XOffset("arm:N", sort=list(arms)), **_arm_channels(alt, arms)
    )
    bars = base.mark_rule(strokeWidth=2.5).encode(y=alt.Y("lower:Q", scale=scale, axis=y_axis), y2="attainment:Q")
    ends = base.mark_tick(thickness=2.5, size=9).encode(y=alt.Y("lower:Q", scale=scale, axis=y_axis))
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=_shape(alt, arms))
    rule = alt.Chart(_data(alt, [{"target": target}])).mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5)
    line = rule.encode(y=alt.Y("target:Q", scale=scale, axis=y_axis))
    return draw(alt.layer(line, bars, ends, points).properties(width=WIDTH, height=210), chart_id, title)


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
        colour, dash = _arm_channels(alt, arms)["color"].legend(legend), _dash(alt, arms).legend(legend)
        channels = {"x": x, "y": y, "strokeDash": dash, "color": colour}
        cells = alt.Chart(_data(alt, mine)).mark_line(strokeWidth=1, opacity=0.35)
        thick = alt.Chart(_data(alt, means)).mark_line(strokeWidth=2.5)
        layers = [cells.encode(detail="block:N", **channels), thick.encode(**channels)]
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=130, title=str(label)))
    return draw(alt.vconcat(*charts), chart_id, title)


def sweep(rows: Sequence[Row], axis: str, value_axis: str, chart_id: str, title: str) -> str:
    """A metric over the loads of a baseline. Rows: load, value (a repeat), mean (of the load's repeats), series."""
    import altair as alt

    series = list(dict.fromkeys(row["series"] for row in rows))
    colours = [ARM_COLOURS["candidate"], "#9a6700", ARM_COLOURS["baseline"]][: len(series)]
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=series, range=colours),
        legend=alt.Legend() if len(series) > 1 else None,
    )
    shape = alt.Shape(
        "series:N",
        scale=alt.Scale(domain=series, range=["circle", "triangle-up", "square"][: len(series)]),
        legend=alt.Legend() if len(series) > 1 else None,
    )
    x = _load_channel(alt, [row["load"] for row in rows], axis)
    means = {(row["series"], row["load"]): row["mean"] for row in rows}
    lines = [{"series": name, "load": load, "value": mean} for (name, load), mean in sorted(means.items())]
    y = alt.Y("value:Q", title=value_axis, scale=alt.Scale(zero=True))
    layers = [
        alt.Chart(_data(alt, lines)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        alt.Chart(_data(alt, rows))
        .mark_point(filled=True, opacity=0.75, size=60)
        .encode(x=x, y=y, color=colour, shape=shape),
    ]
    return draw(alt.layer(*layers).properties(width=WIDTH, height=210), chart_id, title)


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
        base = alt.Chart(_data(alt, mine)).encode(x=x, xOffset=offset, **_arm_channels(alt, arms))
        line = base.mark_line(strokeWidth=1, opacity=0.6).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis), detail="load:N", strokeDash=_dash(alt, arms)
        )
        bars = base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(
            y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"
        )
        points = base.mark_point(filled=True, size=45, opacity=1).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis), shape=_shape(alt, arms)
        )
        charts.append(alt.layer(line, bars, points).properties(width=WIDTH, height=80, title=str(panel)))
    return draw(alt.vconcat(*charts), chart_id, title)
