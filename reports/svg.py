"""A Vega-Lite chart -> static SVG for an HTML page: deterministic, accessible, without outside references.

vl-convert renders offline with its own copy of Liberation Sans, so text is laid out alike on every machine. What it
writes is then put into one form: clip paths get stable names (it numbers them across a process), numbers are rounded,
the machinery of the interactive runtime is left out, and the picture gets a title for those who cannot see it.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

FONT = "Liberation Sans"
#: the same widths wherever Liberation Sans is not installed
_FONT_STACK = "Liberation Sans, Arial, Helvetica, sans-serif"

_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_DROPPED = ("role", "class", "pointer-events", "cursor", "aria-roledescription", "aria-label", "aria-hidden")


def _round(match: re.Match[str]) -> str:
    text = f"{float(match.group()):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _tidy(element: ElementTree.Element, names: dict[str, str]) -> None:
    """Strip namespaces and runtime attributes, round numbers, rename ids; drop what is never drawn."""
    element.tag = element.tag.rsplit("}", 1)[-1]
    for key in _DROPPED:
        element.attrib.pop(key, None)
    for key, value in list(element.attrib.items()):
        for old, new in names.items():
            value = new if key == "id" and value == old else value.replace(f"url(#{old})", f"url(#{new})")
        if key == "font-family":
            value = _FONT_STACK
        element.attrib[key] = _NUMBER.sub(_round, value)
    for child in list(element):
        if child.get("display") == "none" or (child.get("aria-hidden") == "true" and child.get("d") == "M0,0h0v0h0Z"):
            element.remove(child)
        else:
            _tidy(child, names)


def tidy(svg: str, chart_id: str, title: str) -> str:
    """The SVG in its final form: ids prefixed with `chart_id`, `title` as its accessible name."""
    root = ElementTree.fromstring(svg)
    ids = [found for found in (element.get("id") for element in root.iter()) if found]
    _tidy(root, {old: f"{chart_id}-{index}" for index, old in enumerate(ids, start=1)})
    _, _, width, height = root.attrib.get("viewBox", "0 0 0 0").split()
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-labelledby": f"{chart_id}-title",
        }
    )
    name = ElementTree.Element("title", {"id": f"{chart_id}-title"})
    name.text = title
    root.insert(0, name)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def draw(chart: Any, chart_id: str, title: str) -> str:
    """Render an Altair chart. `title` says in words what it shows; `chart_id` must be unique in the page."""
    import altair as alt
    import vl_convert

    themed = (
        chart.configure(font=FONT, aria=False, background="#ffffff", padding=8)
        .configure_view(stroke="#d5dae0")
        .configure_axis(
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelColor="#30363d",
            titleColor="#30363d",
            gridColor="#e8ebee",
            domainColor="#8c959f",
            tickColor="#8c959f",
        )
        .configure_legend(orient="bottom", labelFontSize=12, title=None, symbolSize=90, labelLimit=300)
        .configure_title(fontSize=12, fontWeight="bold", anchor="start", color="#30363d")
    )
    # Each part was validated when it was made; a second time, whole, takes longer than to draw it.
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return tidy(vl_convert.vegalite_to_svg(themed.to_dict(validate=False), vl_version=version), chart_id, title)
