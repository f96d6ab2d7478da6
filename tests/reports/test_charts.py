"""Charts: real content, the right places, stable bytes, nothing from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import bundles
import pytest
from benchcard.reports import cell_charts, charts, encodings
from benchcard.reports.svg import tidy

ROWS = [
    {
        "label": "6 req/s (exploratory)",
        "kind": "exploratory",
        "mean": 0.0,
        "low": -0.01,
        "high": 0.01,
        "threshold": 0.05,
    },
    {"label": "12 req/s", "kind": "claimed", "mean": 0.1, "low": 0.09, "high": 0.11, "threshold": 0.05},
]
POINTS = [
    {"arm": arm, "block": block, "load": load, "goodput": load * share}
    for arm, share in (("baseline", 0.8), ("candidate", 0.9))
    for block in (1, 2)
    for load in (6.0, 12.0)
]
ECDF = [
    {"arm": arm, "load": "6 req/s", "percentile": p / 4, "value": 100.0 + p * (10 if arm == "baseline" else 5)}
    for arm in ("baseline", "candidate")
    for p in range(5)
]
BLOCKS = [{"load": "12 req/s", "block": b, "d": 0.08 + b / 100, "mean": 0.1, "threshold": 0.05} for b in (1, 2, 3)]
SWEEP = [{"series": "tpot.p50", "load": n, "value": v, "mean": 20.0} for n in (1.0, 8.0) for v in (19.0, 20.0, 21.0)]
BY_INDEX = [
    {"arm": arm, "block": block, "load": load, "batch": b, "index": 10.0 * b - 5.5, "value": 100.0 + b * block}
    for load in ("6 req/s", "12 req/s")
    for arm in ("baseline", "candidate")
    for block in (1, 2)
    for b in range(1, 21)
]

DRAWN = {
    "effect": lambda: charts.effect_intervals(ROWS, "change of goodput", True, "effect-1", "what it shows & how"),
    "blocks": lambda: charts.block_effects(BLOCKS, "change of goodput", True, "blocks", "what it shows & how"),
    "goodput": lambda: charts.goodput_curve(
        POINTS, ["baseline", "candidate"], "offered load, req/s", True, "goodput", "what it shows & how"
    ),
    "latency": lambda: cell_charts.latency_ecdf(
        ECDF, ["baseline", "candidate"], "TTFT, ms", 130.0, "latency-ttft", "what it shows & how"
    ),
    "steady": lambda: cell_charts.latency_by_index(
        BY_INDEX, ["baseline", "candidate"], "TTFT, ms", "steady", "what it shows & how"
    ),
    "sweep": lambda: charts.sweep(SWEEP, "concurrency", "TPOT, ms", "tpot", "what it shows & how"),
}


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_chart_has_content_a_name_and_stable_bytes(name: str) -> None:
    svg = DRAWN[name]()
    assert svg == DRAWN[name]()
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    assert root.get("role") == "img"
    title = root[0]
    assert (title.tag, title.text) == ("title", "what it shows & how")
    assert root.get("aria-labelledby") == title.get("id")
    assert len(list(root.iter("path"))) + len(list(root.iter("line"))) > 10
    assert "http" not in svg
    assert float(root.get("width", "0")) <= 470
    assert not re.search(r"\d\.\d{3}", svg)
    assert not re.search(r"\b(nan|undefined|Infinity)\b", svg, re.IGNORECASE)


def _texts(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter("text")]


def test_the_effect_chart_says_threshold_claimed_and_exploratory() -> None:
    texts = _texts(DRAWN["effect"]())
    for wanted in (
        "threshold",
        "claimed",
        "exploratory",
        "12 req/s",
        "6 req/s (exploratory)",
        "change of goodput",
        "0",
    ):
        assert wanted in texts
    assert "+0%" not in texts


def test_arms_differ_by_more_than_colour() -> None:
    svg = DRAWN["goodput"]()
    assert "y = x: every request good" in _texts(svg)
    assert 'stroke-dasharray="5,3"' in svg
    for colour in encodings.ARM_COLOURS.values():
        assert colour in svg


def test_each_window_has_a_line_and_each_arm_a_mean_at_each_load() -> None:
    """Two loads of two arms with two blocks: eight thin lines, four thick ones, dashed for the baseline."""
    paths = list(ElementTree.fromstring(DRAWN["steady"]()).iter("path"))
    lines = [
        path
        for path in paths
        if path.get("stroke") in encodings.ARM_COLOURS.values() and path.get("d", "").count("L") == 19
    ]
    assert [sum(path.get("stroke-width") == width for path in lines) for width in ("1", "2.5")] == [8, 4]
    dashed = [path for path in lines if path.get("stroke-dasharray") == "5,3"]
    assert {path.get("stroke") for path in dashed} == {encodings.ARM_COLOURS["baseline"]}
    assert {"6 req/s", "12 req/s", "request", "TTFT, ms", "baseline", "candidate"} <= set(_texts(DRAWN["steady"]()))


def test_interval_bars_stand_where_their_numbers_say() -> None:
    """The bar's ends and the zero and threshold lines lie on one linear scale: 9% : 11% : 0 : 5%."""
    root = ElementTree.fromstring(DRAWN["effect"]())
    found: dict[str, list[tuple[float, float]]] = {}
    for line in root.iter("line"):
        start = float(re.match(r"translate\(([-\d.]+)", line.get("transform", ""))[1])  # type: ignore[index]
        key = f"{line.get('stroke')} {line.get('stroke-width')}"
        found.setdefault(key, []).append((start, start + float(line.get("x2", "0"))))
    zero = found["#30363d 1"][0][0]
    threshold = found[f"{encodings.THRESHOLD} 1.5"][0][0]
    low, high = sorted(found[f"{encodings.ARM_COLOURS['candidate']} 5"][0])
    scale = (threshold - zero) / 0.05
    assert (low - zero) / scale == pytest.approx(0.09, abs=1e-3)
    assert (high - zero) / scale == pytest.approx(0.11, abs=1e-3)


def test_tidy_gives_stable_names_and_drops_the_runtime() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 20" class="marks"><defs><clipPath id="clip7">'
        '<rect width="1.23456"/></clipPath></defs><g clip-path="url(#clip7)" role="x" aria-label="y">'
        '<path d="M0.0001,2.5L3.14159,4" font-family="Liberation Sans"/><path display="none"/></g></svg>'
    )
    assert tidy(svg, "chart", "a < b") == (
        '<svg viewBox="0 0 10 20" width="10" height="20" role="img" aria-labelledby="chart-title">'
        '<title id="chart-title">a &lt; b</title><defs><clipPath id="chart-1"><rect width="1.23" /></clipPath></defs>'
        '<g clip-path="url(#chart-1)"><path d="M0,2.5L3.14,4" '
        'font-family="Liberation Sans, Arial, Helvetica, sans-serif" /></g></svg>'
    )


def test_a_scaled_effect_is_drawn_in_its_own_unit(report: object) -> None:
    verdict = bundles.supported()
    verdict["effects"][1].update(scale="scaled", mean=0.5, interval=[0.3, 0.7], threshold=0.0, ratio=None)
    markdown, html = report(verdict)  # type: ignore[operator]
    assert "+0.50 req/s | 0.30 req/s to 0.70 req/s | 0 req/s |" in markdown
    assert "scaled: an arm had no good request in some block" in markdown
    assert html.count("<svg") == 7  # two effect charts now: their units differ


def test_heavy_libraries_load_only_when_drawing() -> None:
    code = (
        "import sys; import benchcard.reports.render, benchcard.reports.charts; "
        "print(sorted({'altair', 'vl_convert', 'polars', 'jinja2', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
