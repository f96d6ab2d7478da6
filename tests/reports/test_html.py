"""report.html: one safe, self-contained, accessible file that is the same each time."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import bundles
import pytest
from benchcard.reports.render import render

NAMES = ["supported", "falsified", "inconclusive", "mixed", "invalid", "baseline"]
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "line", "rect", "circle"}
EVIL = "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=y>"

Report = Callable[..., tuple[str, str]]


class Page(HTMLParser):
    """Collects what a page holds; fails on tags that do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style",):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def parse(html: str) -> Page:
    """The page, read to its end."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


@pytest.mark.parametrize("name", NAMES)
def test_well_formed_and_self_contained(name: str, report: Report) -> None:
    _, html = report(getattr(bundles, name)(), series=name != "invalid")
    page = parse(html)
    for tag, attributes in page.tags:
        assert tag not in ("script", "iframe", "object", "embed", "base", "form", "foreignobject")
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            if key in ("src", "href", "xlink:href", "srcset", "action", "data"):
                assert value is not None
                assert value.startswith("#") or value == "data:,", (tag, key, value)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", html)
    assert not re.search(r"https?://", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique_and_links_lead_somewhere(name: str, report: Report) -> None:
    _, html = report(getattr(bundles, name)(), series=name != "invalid")
    page = parse(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for key in ("href", "aria-labelledby"):
            target = attributes.get(key)
            if target and target != "data:,":
                assert target.lstrip("#") in ids
    for target in re.findall(r"url\(#([^)]*)\)", html):
        assert target in ids


def _evil(value: object) -> object:
    """The JSON with every text that a card or a server can choose replaced by markup."""
    verdict = value
    assert isinstance(verdict, dict)
    verdict["card"].update(title=EVIL, question=EVIL, id=EVIL)
    verdict["sentence"] = EVIL
    for row in verdict["conditions"]:
        row.update(name=EVIL, value=EVIL)
    verdict["blocks"][0]["reason"] = EVIL
    verdict["validity"][0].update(name=EVIL, meaning=EVIL, advice=EVIL, where=[EVIL], passed=False)
    verdict["because"] = [{"code": "x", "text": EVIL}]
    verdict["attribution"][0]["outcomes"][EVIL] = 3
    return verdict


@pytest.mark.parametrize("name", ["supported", "baseline"])
def test_nothing_in_a_bundle_becomes_markup(name: str, report: Report) -> None:
    result = getattr(bundles, name)()
    result.setdefault("sentence", "")
    card = bundles.baseline_card() if name == "baseline" else bundles.copy.deepcopy(bundles.CARD)
    card["hypothesis"] = {"chain": [EVIL], "may_cost": [EVIL]}
    log = [{"kind": "server_died", "time": EVIL, "cell": EVIL, "why": EVIL}]
    markdown, html = report(_evil(result), card=card, log=log)
    page = parse(html)
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert page.text.count("<script>alert(1)</script>") > 10
    assert "<script" not in markdown
    assert "<img" not in markdown
    assert markdown.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10


def test_direction_overrides_cannot_turn_a_sentence_around(report: Report) -> None:
    verdict = bundles.supported()
    verdict["sentence"] = "did \u202enot\u202c raise\x00 it"
    markdown, html = report(verdict)
    for text in (markdown, html):
        assert "\u202e" not in text
        assert "\x00" not in text
        assert "did \ufffdnot\ufffd raise\ufffd it" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bundle_renders_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    card = bundles.baseline_card() if name == "baseline" else None
    one = bundles.write(tmp_path / "one" / "bundle", getattr(bundles, name)(), card)
    two = bundles.write(tmp_path / "elsewhere", getattr(bundles, name)(), card)
    first = [path.read_bytes() for path in render(one)]
    # rendered reports in the bundle change nothing, nor does the place they are written to
    second = [path.read_bytes() for path in render(one, tmp_path / "out" / "deep")]
    third = [path.read_bytes() for path in render(two)]
    assert first == second == third
    assert [path.name for path in render(one)] == ["REPORT.md", "report.html"]
    assert not list(one.glob(".*"))


@pytest.mark.parametrize("name", ["supported", "falsified", "inconclusive", "mixed", "invalid"])
def test_word_and_sentence_come_first(name: str, report: Report) -> None:
    verdict = getattr(bundles, name)()
    markdown, html = report(verdict, series=name != "invalid")
    page = parse(html)
    text = page.text
    assert name in markdown.splitlines()[0]
    assert markdown.splitlines()[2] == f"**{verdict['sentence']}**"
    assert text.index(name) < text.index(verdict["sentence"]) < text.index("The decision:") < text.index("Claim:")
    for condition in verdict["conditions"]:
        assert condition["name"] in text
    for phrase in ("no difference", "trending", "trend"):
        assert phrase not in text.lower()


def test_every_table_cell_stands_in_both(report: Report) -> None:
    markdown, html = report(bundles.supported())
    text = parse(html).text
    for line in markdown.splitlines():
        if line.startswith("| ") and "---" not in line:
            for cell in line.strip("| ").split(" | "):
                plain = unescape(cell.strip(" `*").replace("\\", ""))
                assert plain in text, plain
