"""A bundle -> REPORT.md and report.html.

The same bundle renders to the same bytes: nothing here reads the clock, the path or the machine, and ids are stable.
An audit renders again and compares. Charts stand only in the HTML; what drew them is named in its `generator` tag,
since another version of the drawing library may set a line elsewhere.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from . import wording
from .aa import aa_sections
from .baseline import baseline_document
from .days import second_day_section
from .document import Document
from .effects import effect_section, evidence_section, guard_section, hypothesis_section
from .gates import gate_sections
from .headline import WORDS, decision, short_digest
from .identity import difference_sections, forbidden_sections
from .knee import knee_sections
from .machine import machine_sections
from .next_steps import is_unknown
from .populations import population_sections
from .procedure import (
    blocks_section,
    check_section,
    conditions_section,
    identity_section,
    validity_section,
)
from .read import Bundle, read_bundle
from .servers import server_sections
from .service import attribution_section, goodput_section, latency_section
from .start import start_sections
from .steady import steady_sections
from .summary import metrics_section

if TYPE_CHECKING:
    from jinja2 import Environment

from benchcard.schema.errors import BundleError

MARKDOWN = "REPORT.md"
HTML = "report.html"

# What Markdown would take for markup. A backslash before any of them is plain text again. (Angle brackets become
# entities instead: not every renderer lets a backslash stop a tag.)
_MARKUP = re.compile(r"([\\`*\[\]|~])|(?<![^\W_])(_)|(_)(?![^\W_])|^(#|[-+](?= )|\d+(?=[.)] ))")


def _escaped(match: re.Match[str]) -> str:
    text = match.group()
    return f"{text}\\" if text.isdigit() else f"\\{text}"


def markdown_text(text: object) -> str:
    """Plain text as Markdown that shows exactly it: one line, markup escaped, also in a table's cell."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(_escaped, line)


def markdown_code(text: object) -> str:
    """A literal in Markdown: a code span, or escaped text where a code span could not hold it."""
    line = " ".join(str(text).split())
    return markdown_text(line) if not line or set(line) & set("`|<") else f"`{line}`"


def ab_document(bundle: Bundle) -> Document:
    """The whole report of an ab bundle, in the order in which it is read."""
    result = bundle.result
    if result.get("verdict") not in WORDS:
        raise BundleError(f"verdict.json: verdict: found {result.get('verdict')!r}; wanted one of {', '.join(WORDS)}")
    card = result.get("card") or {}
    symbol, tone = WORDS[result["verdict"]]
    conditions = result.get("conditions") or []
    unknown = sum(is_unknown(condition) for condition in conditions)
    return Document(
        title=card.get("title") or card.get("id") or "experiment",
        word=result["verdict"],
        symbol=symbol,
        tone=tone,
        sentence=result.get("sentence") or "",
        stamp=f"{wording.count(len(conditions), 'condition')}, {unknown} unknown; "
        f"run {result.get('run')}, card {short_digest(card.get('digest'))}",
        because=tuple(item["text"] for item in result.get("because") or []),
        decision=decision(bundle),
        question=card.get("question") or "",
        sections=(
            *forbidden_sections(bundle),
            effect_section(bundle),
            *start_sections(bundle),
            guard_section(bundle),
            *gate_sections(bundle),
            evidence_section(bundle),
            *population_sections(bundle),
            goodput_section(bundle),
            *knee_sections(bundle),
            attribution_section(bundle),
            blocks_section(bundle),
            *aa_sections(bundle),
            latency_section(bundle),
            *steady_sections(bundle),
            *server_sections(bundle),
            *machine_sections(bundle),
            metrics_section(bundle),
            validity_section(bundle),
            *difference_sections(bundle),
            conditions_section(bundle),
            hypothesis_section(bundle),
            second_day_section(bundle),
            check_section(bundle),
            identity_section(bundle),
        ),
    )


def _environment() -> Environment:
    """Templates with HTML escaping on (by the file's name), and the two ways Markdown escapes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("benchcard.reports", "templates"),
        autoescape=lambda name: bool(name) and ".html" in str(name),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown_text
    environment.filters["md_code"] = markdown_code
    return environment


def _write(path: Path, text: str) -> Path:
    """Write whole or not at all: a temporary name, then a rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)
    return path


def render(bundle: Path, out: Path | None = None) -> list[Path]:
    """Write REPORT.md and report.html of the bundle in folder `bundle` into `out` (the bundle itself by default).

    Returns the two paths. Raises BundleError where a file is missing or damaged, InputError where a format is newer.
    """
    found = read_bundle(bundle)
    document = ab_document(found) if found.kind == "ab" else baseline_document(found)
    name = "report" if found.kind == "ab" else "baseline"
    generator = "benchcard reports; altair " + version("altair") + "; vl-convert " + version("vl-convert-python")
    folder = out if out is not None else bundle
    folder.mkdir(parents=True, exist_ok=True)
    environment = _environment()
    texts = {
        MARKDOWN: environment.get_template(f"{name}.md.j2").render(doc=document),
        HTML: environment.get_template(f"{name}.html.j2").render(doc=document, generator=generator),
    }
    return [_write(folder / file, text) for file, text in texts.items()]
