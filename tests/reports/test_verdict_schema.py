"""verdict.json against its published schema: hand-written, published, constructed ones and one of a virtual run."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bundles
import pytest
import yaml
from benchcard.analysis import aa, cells, effect, gates, goodput, latency, percentiles, steady_loads
from benchcard.analysis.metrics import ALL_METRICS
from benchcard.analysis.server_metrics import EVIDENCE, SERVER_METRICS
from benchcard.runner.analysis_process import Analysis, installed_revision
from benchcard.runner.cli import group
from benchcard.runner.plan.plan import make_plan
from benchcard.runner.virtual_run import virtual_run
from benchcard.schema.card import load_card
from benchcard.schema.event import OUTCOMES
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ..analysis import test_aa, test_gates, test_populations, test_start
from ..analysis.bundles import ab_card, analyse, build
from ..analysis.test_host import steady_machine, watched
from ..analysis.test_verdict import all_fail, gain
from ..runner.cards import small_card

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
SCHEMA: Json = json.loads((ROOT / "schema" / "verdict.schema.json").read_text(encoding="utf-8"))
PUBLISHED = sorted((ROOT / "reports" / "published").glob("*/*/verdict.json"))
HAND_WRITTEN = ("supported", "falsified", "inconclusive", "mixed", "invalid", "populations", "aa")
#: maps whose keys are reasons, not names of a format
FREE = ("undefined",)


def errors(verdict: Json) -> list[str]:
    """What the schema has against it."""
    json.dumps(verdict, allow_nan=False)
    return [f"{list(e.absolute_path)}: {e.message}" for e in Draft202012Validator(SCHEMA).iter_errors(verdict)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_the_golden_verdicts_are_valid(name: str) -> None:
    assert errors(getattr(bundles, name)()) == []


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parts[-3])
def test_the_published_verdicts_are_valid(path: Path) -> None:
    assert errors(json.loads(path.read_text(encoding="utf-8"))) == []


def _cold(folder: Path) -> Json:
    return analyse(build(folder, test_start.cold_card(), start=test_start.faster))


def _no_start(folder: Path) -> Json:
    return analyse(build(folder, test_start.cold_card(), start=lambda cell, row: None))


def _biased(folder: Path) -> Json:
    card = test_aa.aa_card()
    return analyse(build(folder, card, good=test_aa.shares(test_aa.HIGHER), skip=test_aa.spares))


def _gates(folder: Path) -> Json:
    tables = {"greedy_divergence": test_gates.greedy(0, 0, both=40)}
    return test_gates.judged(folder, [test_gates.GREEDY], **tables)


CONSTRUCTED: dict[str, tuple[str, Callable[[Path], Json]]] = {
    "a rise": ("supported", lambda at: analyse(build(at, good=gain(1.0, 1.34)))),
    "nothing was run": ("invalid", lambda at: analyse(build(at, skip=lambda cell: True))),
    "scaled, nothing good": ("inconclusive", lambda at: analyse(build(at, good=lambda block, arm, point: 0.0))),
    "some load": (
        "supported",
        lambda at: analyse(build(at, ab_card(claim__scope="some_load", claim__at=[10.0, 20.0]), good=gain(1.0, 1.34))),
    ),
    "a reversal": ("mixed", lambda at: analyse(build(at, ab_card(claim__at=[10.0, 20.0]), good=gain(0.7, 1.34)))),
    "all fail": (
        "falsified",
        lambda at: analyse(build(at, rows=lambda cell, r: all_fail(cell, r) if cell.arm == "candidate" else r)),
    ),
    "one block": ("inconclusive", lambda at: analyse(build(at, ab_card(method__blocks=1, method__spare_blocks=0)))),
    "a ceiling": ("falsified", lambda at: analyse(build(at))),
    "without objectives": ("inconclusive", lambda at: analyse(build(at, ab_card(objectives=None)))),
    "cold starts": ("supported", _cold),
    "cold starts without a record": ("invalid", _no_start),
    "biased A/A blocks": ("invalid", _biased),
    "populations": (
        "falsified",
        lambda at: analyse(build(at, test_populations.card(), rows=test_populations.two_kinds)),
    ),
    "a quality gate": ("supported", _gates),
}


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructed_verdicts_are_valid(name: str, tmp_path: Path) -> None:
    word, make = CONSTRUCTED[name]
    verdict = make(tmp_path)
    assert errors(verdict) == []
    assert verdict["verdict"] == word


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The verdict of a run in virtual time with A/A blocks, populations and a guard."""
    folder = tmp_path_factory.mktemp("virtual")
    path = small_card(folder)
    card = yaml.safe_load(path.read_text())
    card["workload"]["populations"] = {
        "documents": {"share": "70%", "prefix": card["workload"]["requests"].pop("prefix")},
        "chat": {"share": "30%", "objectives": {"ttft": {"at_most": "1 s"}}},
    }
    card["claim"] = {"metric": "ttft.p50", "must_fall_by": "2%", "at": ["40 req/s"], "population": "documents"}
    card["guards"] = [{"metric": "ttft.p50", "may_rise_by": "900%", "population": "chat"}]
    card["method"]["aa"] = {"blocks": 5, "within": "50%"}
    path.write_text(yaml.safe_dump(card))
    loaded = load_card(path, installed_revision=installed_revision())
    run = virtual_run(make_plan(loaded.resolved, loaded.digest), folder / "run", loaded.text)
    Analysis(installed_revision(), "benchcard.analysis", None).run("verdict", str(run.root))
    found: Json = json.loads((run.root / "verdict.json").read_text())
    return found


def test_a_virtual_runs_verdict_is_valid_and_has_every_part(virtual: Json) -> None:
    assert errors(virtual) == []
    assert set(SCHEMA["properties"]) - set(virtual) == {"gates", "telemetry"}
    assert all(virtual[key] for key in ("guards", "aa", "aa_blocks", "latency", "population_effects"))


def test_an_unknown_key_is_refused() -> None:
    assert errors({**bundles.supported(), "average": 1})


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of every object."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            if key not in FREE:
                yield from objects(item, (*path, key))
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from objects(item, (*path, i))


def _holds_objects(shape: Json) -> bool:
    """Whether it is an object, or a list of them."""
    return shape.get("type") == "object" or target(shape.get("items", {})).get("type") == "object"


def test_an_unknown_key_in_any_row_is_refused(virtual: Json, tmp_path: Path) -> None:
    """One object of each shape: of the run's verdict, and of others where it has none."""
    gated, ended = _gates(tmp_path / "gated"), analyse(build(tmp_path / "ended"))
    undecided = analyse(build(tmp_path / "undecided", good=gain(1.0, 1.06, noise=0.03)))
    of_kind = {**virtual, **{key: gated[key] for key in ("gates", "knee", "evidence")}, "next": undecided["next"]}
    of_kind["effects"] = [row for row in ended["effects"] if row["ceiling"]]
    of_kind["population_reversals"] = bundles.populations()["population_reversals"]
    of_kind["telemetry"] = watched(tmp_path / "watched", ab_card(), steady_machine)["telemetry"]
    assert errors(of_kind) == []
    shapes = {tuple("*" if isinstance(step, int) else step for step in path): path for path in objects(of_kind)}
    assert {shape[0] for shape in shapes if shape} == {
        key for key, shape in SCHEMA["properties"].items() if _holds_objects(target(shape))
    }
    places = {("next", "parts", "*"), ("effects", "*", "ceiling"), ("effects", "*", "absolute")}
    places |= {("knee", "candidate", "points", "*"), ("steady_state", "*", "cells", "*"), ("blocks", "*", "cells", "*")}
    assert places <= set(shapes)
    top: dict[str, Any]
    for shape, path in shapes.items():
        # the list that holds the row, cut to that row, so that no other is looked at
        top = {key: [] if isinstance(item, list) and key != "because" else item for key, item in of_kind.items()}
        steps = list(path)
        if len(steps) > 1 and isinstance(of_kind[str(steps[0])], list):
            top[str(steps[0])] = [of_kind[str(steps[0])][int(steps[1])]]
            steps[1] = 0
        changed = copy.deepcopy(top)
        assert errors(changed) == [], shape
        place: Any = changed
        for step in steps:
            place = place[step]
        place["surprise"] = None
        assert errors(changed), shape


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("effects", 0, "mean"), "1.0"),
        (("effects", 0, "interval"), [0.1]),
        (("effects", 0, "p"), 1.5),
        (("effects", 0, "scale"), "ratio"),
        (("guards", 0, "word"), "passed"),
        (("because", 0, "code"), "claim"),
        (("blocks", 0, "cells", 0, "arm"), "baseline_aa"),
        (("steady_state", 0, "word"), "stationary"),
        (("conditions", 0, "source"), "assumed"),
        (("next", "action"), "wait"),
        (("verdict",), "true"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_wrong_value_is_refused(path: tuple[str | int, ...], wrong: Any) -> None:
    verdict: Any = bundles.supported()
    place = verdict
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    assert len(errors(verdict)) == 1


def shapes_of(node: Any, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every subschema that stands for a value of verdict.json, by its place."""
    if not isinstance(node, dict):
        return
    yield path, node
    for key in ("properties", "$defs"):
        for name, item in node.get(key, {}).items():
            yield from shapes_of(item, f"{path}/{key}/{name}")
    for key in ("items", "additionalProperties"):
        yield from shapes_of(node.get(key), f"{path}/{key}")


def target(node: Json) -> Json:
    return SCHEMA["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def test_every_property_has_a_description_and_a_type_and_every_object_is_closed() -> None:
    found = list(shapes_of(SCHEMA))
    assert len(found) > 300
    for path, node in found:
        shape = target(node)
        if re.search(r"/(properties|\$defs)/\w+$", path):
            text = node.get("description") or shape.get("description")
            assert text, path
            assert text.endswith((".", ")")), path
        assert {"type", "enum", "const"} & set(shape), path
        kinds = shape.get("type", ())
        if "object" in kinds and "properties" in shape:
            assert shape["additionalProperties"] is False, path
        if "array" in kinds:
            assert "items" in shape, path
    used = {node["$ref"].rpartition("/")[2] for _, node in found if "$ref" in node}
    assert used == set(SCHEMA["$defs"])


def enum(shape: str, key: str) -> set[Any]:
    return set(SCHEMA["$defs"][shape]["properties"][key]["enum"])


def test_words_and_names_are_those_of_the_analysis() -> None:
    assert {metric.unit for metric in ALL_METRICS.values()} == set(SCHEMA["$defs"]["unit"]["enum"])
    assert enum("gate", "gate") == set(gates.GATES)
    assert enum("gate", "unit") == {gate.unit for gate in gates.GATES.values()}
    assert enum("evidence", "metric") == set(EVIDENCE)
    assert enum("server_row", "metric") == set(SERVER_METRICS)
    assert enum("server_row", "unit") == {metric.unit for metric in SERVER_METRICS.values()}
    assert enum("aa_row", "word") == {aa.CLEAN, aa.UNSHOWN, aa.BIASED, aa.OPEN, None}
    assert enum("steady", "word") == {steady_loads.STEADY, steady_loads.DRIFTS, steady_loads.OPEN, None}
    assert enum("latency", "metric") == set(cells.CURVES)
    assert enum("latency", "percentile") == set(percentiles.PERCENTILES)
    assert enum("objective_percentile", "metric") == set(latency.OBJECTIVES)
    assert enum("guard", "direction") | enum("claim", "direction") == {*effect.RISE, *effect.FALL}
    assert set(SCHEMA["$defs"]["outcomes"]["properties"]) == set(OUTCOMES)
    for shape in ("causes", "cause_rates"):
        assert tuple(SCHEMA["$defs"][shape]["properties"]) == goodput.CAUSES


def test_the_codes_are_those_that_the_analysis_writes() -> None:
    """Every code in the source that makes findings; a claim's code is made of its word."""
    source = "".join((ROOT / "analysis" / f"{name}.py").read_text() for name in ("decide", "gates", "work"))
    written = set(re.findall(r'Finding\(\s*[\w"]+(?: \w+")?,\s*"(\w+)"', source))
    written |= set(re.findall(r'\("\w+", "(gate_\w+)"', source)) | set(re.findall(r'append\(\("(\w+)"', source))
    written |= {f"claim_{word}" for word in ("supported", "falsified", "inconclusive")}
    assert enum("finding", "code") == written


def test_the_command_prints_it() -> None:
    found = CliRunner().invoke(group, ["verdict", "--schema"])
    assert found.exit_code == 0
    assert json.loads(found.output) == SCHEMA
    for arguments in (["verdict"], ["verdict", "RUN", "--schema"], ["verdict", "--schema", "--json"]):
        assert CliRunner().invoke(group, arguments).exit_code == 2
