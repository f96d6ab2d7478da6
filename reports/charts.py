"""The charts of what was compared: effects, and metrics over the loads. Rows in, static SVG out.

Widths are small (about 440 px with the axis), so that the letters can still be read on a telephone; the page enlarges
them where there is room. Every chart stands on white, in the dark as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from .encodings import (
    ARM_COLOURS,
    GREY,
    THRESHOLD,
    WIDTH,
    Row,
    arm_channels,
    dash_channel,
    data,
    load_channel,
    shape_channel,
    signed_axis,
)
from .svg import draw


def effect_intervals(rows: Sequence[Row], axis: str, percent: bool, chart_id: str, title: str) -> str:
    """Interval bars. Rows: label, mean, low, high, threshold, claimed (a fraction where `percent`)."""
    import altair as alt

    values = [row[key] for row in rows for key in ("low", "high", "threshold")] + [0.0]
    span = max(values) - min(values) or 1.0
    scale = alt.Scale(domain=[min(values) - 0.06 * span, max(values) + 0.06 * span], nice=False)
    style = signed_axis(alt, span, percent, 6, axis)
    y = alt.Y("label:N", sort=[row["label"] for row in rows], title=None, axis=alt.Axis(labelLimit=170))
    base = alt.Chart(data(alt, rows)).encode(y=y)
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["claimed", "exploratory"], range=[ARM_COLOURS["candidate"], GREY]),
    )
    bars = base.mark_rule(strokeWidth=5, strokeCap="round").encode(
        x=alt.X("low:Q", scale=scale, axis=style), x2="high:Q", color=colour
    )
    points = base.mark_point(filled=True, size=110, opacity=1, stroke="#ffffff", strokeWidth=1.5).encode(
        x=alt.X("mean:Q", scale=scale), color=colour
    )
    zero = alt.Chart(data(alt, [{"x": 0.0}])).mark_rule(color="#30363d", strokeWidth=1).encode(x="x:Q")
    marks = [alt.Chart(data(alt, [{"x": x, "name": "threshold"} for x in sorted({row["threshold"] for row in rows})]))]
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
        style = signed_axis(alt, span, percent, 5, axis)
        first = data(alt, mine[:1])
        points = (
            alt.Chart(data(alt, mine))
            .mark_point(filled=True, size=80, opacity=1, color=ARM_COLOURS["candidate"])
            .encode(
                x=alt.X("block:O", title="block", axis=alt.Axis(labelAngle=0)), y=alt.Y("d:Q", scale=scale, axis=style)
            )
        )
        layers = [
            alt.Chart(data(alt, [{"y": 0.0}])).mark_rule(color="#30363d").encode(y="y:Q"),
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
    x = load_channel(alt, [row["load"] for row in points], axis)
    y = alt.Y("goodput:Q", title="goodput, req/s", scale=alt.Scale(domain=[0, (high or 1) * 1.05], nice=False))
    channels = arm_channels(alt, arms)
    layers = []
    if diagonal:
        ends = [{"load": 0.0, "goodput": 0.0}, {"load": top * 1.05, "goodput": top * 1.05}]
        layers.append(alt.Chart(data(alt, ends)).mark_line(color=GREY, strokeWidth=1, clip=True).encode(x=x, y=y))
        name = [{"load": top * 0.92, "goodput": top * 0.92, "name": "y = x: every request good"}]
        layers.append(
            alt.Chart(data(alt, name))
            .mark_text(color="#57606a", align="right", dx=-8, dy=-4, fontSize=11)
            .encode(x=x, y=y, text="name:N")
        )
    layers.append(
        alt.Chart(data(alt, means))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, strokeDash=dash_channel(alt, arms), **channels)
    )
    layers.append(
        alt.Chart(data(alt, points))
        .mark_point(filled=True, opacity=0.65, size=55)
        .encode(x=x, y=y, shape=shape_channel(alt, arms), **channels)
    )
    return draw(alt.layer(*layers).properties(width=WIDTH, height=250), chart_id, title)


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
    base = alt.Chart(data(alt, rows)).encode(
        x=x, xOffset=alt.XOffset("arm:N", sort=list(arms)), **arm_channels(alt, arms)
    )
    bars = base.mark_rule(strokeWidth=2.5).encode(y=alt.Y("lower:Q", scale=scale, axis=y_axis), y2="attainment:Q")
    ends = base.mark_tick(thickness=2.5, size=9).encode(y=alt.Y("lower:Q", scale=scale, axis=y_axis))
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape_channel(alt, arms))
    rule = alt.Chart(data(alt, [{"target": target}])).mark_rule(color=THRESHOLD, strokeDash=[6, 3], strokeWidth=1.5)
    line = rule.encode(y=alt.Y("target:Q", scale=scale, axis=y_axis))
    return draw(alt.layer(line, bars, ends, points).properties(width=WIDTH, height=210), chart_id, title)


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
    x = load_channel(alt, [row["load"] for row in rows], axis)
    means = {(row["series"], row["load"]): row["mean"] for row in rows}
    lines = [{"series": name, "load": load, "value": mean} for (name, load), mean in sorted(means.items())]
    y = alt.Y("value:Q", title=value_axis, scale=alt.Scale(zero=True))
    layers = [
        alt.Chart(data(alt, lines)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        alt.Chart(data(alt, rows))
        .mark_point(filled=True, opacity=0.75, size=60)
        .encode(x=x, y=y, color=colour, shape=shape),
    ]
    return draw(alt.layer(*layers).properties(width=WIDTH, height=210), chart_id, title)
