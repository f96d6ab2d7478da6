"""Arms that exchanged places, and A/A blocks across both servers: what a confounded difference then does to a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.analysis.identity_places import expected_look, of_a_place
from benchcard.analysis.places import sides
from benchcard.analysis.read import read_bundle

from .bundles import Row, ab_card, analyse, build
from .test_aa import aa_card, spares

SWAP = {"after_block": 4, "command": ["./swap.sh"], "within": 600.0}


def stepped(block: int, arm: str, load_point: int) -> float:
    """Half of the baseline's attempts are good; of the candidate's 7 in 10 before the swap, and 8 in 10 after it."""
    if arm != "candidate":
        return 0.5
    return 0.7 if block <= 4 else 0.8


def swapped(root: Path, *names: str, log: tuple[Row, ...] = ({"kind": "swapped"},), **changes: Any) -> Path:
    card = ab_card(identity__confounded=list(names), **changes)
    card["method"]["swap"] = SWAP
    bundle = build(root, card, good=stepped)
    with (bundle / "attempts.jsonl").open("a") as file:
        file.writelines(json.dumps({"seq": 900, **line}) + "\n" for line in log)
    return bundle


def codes(verdict: Row) -> list[str]:
    return [item["code"] for item in verdict["because"]]


def condition(verdict: Row, name: str) -> str:
    (found,) = [row["value"] for row in verdict["conditions"] if row["name"] == name]
    return str(found)


def test_a_swap_accounts_for_what_differs_with_the_place(tmp_path: Path) -> None:
    verdict = analyse(swapped(tmp_path, "node", "gpu.uuid"))
    assert verdict["verdict"] == "supported"
    text = "the places of the arms differ in node and gpu.uuid, and the arms exchanged them after block 4 of 8"
    assert {"code": "places", "text": text} in verdict["because"]
    assert verdict["sentence"].endswith(f" T{text[1:]}.")
    assert "Confounded with the treatment" not in verdict["sentence"]
    # ln 1.4 in each of four blocks, then ln 1.6: no spread on either side
    assert condition(verdict, "places") == (
        "the arms exchanged places after block 4 of 8; change of goodput at 20 req/s: "
        "+40% (95% interval +40% to +40%, 4 blocks) before and "
        "+60% (95% interval +60% to +60%, 4 blocks) after (exploratory)"
    )


def test_what_moves_with_the_arm_stays_confounded(tmp_path: Path) -> None:
    verdict = analyse(swapped(tmp_path, "node", "process.libraries"))
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "confounded")
    assert verdict["because"][0]["text"] == (
        "the arms also differ in process.libraries, beside the treatment; the effect may come from there"
    )
    assert "the places of the arms differ in node, and the arms exchanged them" in str(verdict["because"])


def test_a_swap_that_was_planned_and_not_run(tmp_path: Path) -> None:
    verdict = analyse(swapped(tmp_path, "node", log=()))
    assert (verdict["verdict"], codes(verdict)[0]) == ("inconclusive", "confounded")
    assert condition(verdict, "places") == "the arms did not come to exchange places"


def test_a_spare_is_on_the_side_of_the_block_that_it_replaced(tmp_path: Path) -> None:
    log = (
        {"kind": "block_replaced", "block": 2, "by": 9}, {"kind": "block_replaced", "block": 9, "by": 10},
        {"kind": "swapped"},
    )  # fmt: skip
    found = sides(read_bundle(swapped(tmp_path, log=log)))
    assert [number for number, side in found.items() if side == "before"] == [1, 2, 3, 4, 9, 10]


@pytest.mark.parametrize(
    ("shift", "word", "how"),
    [
        (1.0, "supported", "clean: a bias beyond the card's margin is ruled out"),
        (1.02, "invalid", None),
    ],
)
def test_aa_across_the_servers(tmp_path: Path, shift: float, word: str, how: str | None) -> None:
    card = aa_card(identity__confounded=["node"])
    card["method"]["aa"] |= {"across": "servers", "command": None}

    def good(block: int, arm: str, load_point: int) -> float:
        return {"candidate": 0.7, "baseline": 0.5}.get(arm, 0.5 * shift)

    verdict = analyse(build(tmp_path, card, good=good, skip=spares))
    assert verdict["verdict"] == word
    text = f"the places of the arms differ in node, and A/A blocks across both were not biased ({how})"
    assert ({"code": "places", "text": text} in verdict["because"]) == (how is not None)
    assert condition(verdict, "places") == "the baseline ran against itself across both servers before all else"


def test_aa_at_one_server_accounts_for_nothing(tmp_path: Path) -> None:
    card = aa_card(identity__confounded=["node"])
    found = analyse(
        build(tmp_path, card, good=lambda block, arm, point: 0.7 if arm == "candidate" else 0.5, skip=spares)
    )
    assert (found["verdict"], codes(found)[0]) == ("inconclusive", "confounded")


@pytest.mark.parametrize(
    ("name", "of_place"),
    [
        ("node", True), ("gpu.uuid", True), ("host.kernel", True), ("pod", True), ("engine.version", False),
        ("model.weights_sha256", False), ("process.libraries", False), ("nodes", False),
    ],
)  # fmt: skip
def test_what_belongs_to_a_place(name: str, of_place: bool) -> None:
    assert of_a_place(name) is of_place


def field(value: Any) -> Row:
    return {"value": value, "source": "observed"}


def looks(root: Path, log: tuple[Row, ...], **arms: Row) -> Path:
    """A bundle with a swap and these first looks."""
    bundle = swapped(root, log=log)
    for arm, fields in arms.items():
        told = {name: field(value) for name, value in fields.items()}
        (bundle / "identity" / f"{arm}.json").write_text(json.dumps({"arm": arm, "fields": told}))
    return bundle


def test_what_an_arm_should_be_like_where_it_is(tmp_path: Path) -> None:
    """It takes its configuration along, and finds the node and the address of the place."""
    log = ({"kind": "cell_started", "cell": "b04-baseline-l1"}, {"kind": "swapped"})
    bundle = read_bundle(
        looks(
            tmp_path, log,
            baseline={"node": "n1", "engine.version": "1", "server.url": "a", "gpu.uuid": "g1"},
            candidate={"node": "n2", "engine.version": "2", "server.url": "b"},
        )
    )  # fmt: skip

    def values(arm: str, cell: str) -> Row:
        return {name: told["value"] for name, told in (expected_look(bundle, arm, cell) or {}).items()}

    home = {"node": "n1", "engine.version": "1", "server.url": "a", "gpu.uuid": "g1"}
    assert values("baseline", "b04-baseline-l1") == home
    # not yet in the log: it is about to be started, at the other place
    assert values("baseline", "b05-baseline-l1") == {"node": "n2", "engine.version": "1", "server.url": "b"}
    assert values("candidate", "b05-candidate-l1") == {
        "node": "n1", "engine.version": "2", "server.url": "a", "gpu.uuid": "g1",
    }  # fmt: skip
