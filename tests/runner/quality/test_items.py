"""What the gates ask: the same for card and seed, none of it timed, answers that a second calculation gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchcard.runner.plan.plan import Plan, make_plan
from benchcard.runner.quality.builtin import as_completion, built_in
from benchcard.runner.quality.items import questions, require_questions
from benchcard.runner.quality.passes import askings, longest_seconds, passes, place_of
from benchcard.schema.card import load_card
from benchcard.schema.errors import InputError

from ..quality_card import GREEDY, LENGTH, TASK, gates_card, items_file


def plan_of(folder: Path, *gates: str, seed: int | None = None, change: tuple[str, str] = ("", "")) -> Plan:
    path = gates_card(folder, *gates)
    path.write_text(path.read_text().replace(*change))
    card = load_card(path)
    return make_plan(card.resolved, card.digest, seed, inputs=card.inputs)


def test_prompts_of_the_workload_are_its_own_and_new(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GREEDY, LENGTH)
    first, second = questions(plan, 0), questions(plan, 1)
    assert [len(first), len(second)] == [60, 40]
    assert first == questions(plan, 0)
    timed = {digest for digests in plan.prompt_digests.values() for digest in digests}
    digests = [question.digest for question in (*first, *second)]
    assert len({*digests}) == 100
    assert not timed & {*digests}
    # The workload's law: lognormal, median 60, sigma .3. Of 60 the geometric mean's standard error is 4%.
    lengths = sorted(len(question.prompt) for question in first)
    assert 50 < lengths[30] < 72
    assert lengths[0] < 45
    assert lengths[-1] > 80
    other = plan_of(tmp_path, GREEDY, seed=12)
    assert not {*digests} & {question.digest for question in questions(other, 0)}


def test_documents_are_shared_as_in_the_workload(tmp_path: Path) -> None:
    prefix = ("requests: {lengths:", "requests: {prefix: {documents: 3, tokens: 100, choice: uniform}, lengths:")
    asked = questions(plan_of(tmp_path, GREEDY, change=prefix), 0)
    assert len({tuple(question.prompt[:100]) for question in asked}) == 3
    assert len({question.digest for question in asked}) == 60


def test_prompts_that_do_not_fit_are_refused_when_planned(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GREEDY.replace("output_tokens: 24", "output_tokens: 4080"))
    with pytest.raises(InputError, match="4080 output tokens; wanted at most 4096 together"):
        require_questions(plan)


def test_recorded_requests_that_no_timed_cell_has(tmp_path: Path) -> None:
    rows = "".join(f'{{"prompt": "text {k}", "output_tokens": 4}}\n' for k in range(7000))
    (tmp_path / "traffic.jsonl").write_text(rows)
    file = ("requests: {lengths: {input: {median: 60, sigma: 0.3}, output: 8}}", "requests: {file: traffic.jsonl}")
    plan = plan_of(tmp_path, GREEDY, change=file)
    asked = [question.prompt for question in questions(plan, 0)]
    timed = {f"text {request.row}" for requests in plan.requests.values() for request in requests}
    assert len({*asked}) == 60
    assert not timed & {*asked}
    few = plan_of(tmp_path, GREEDY.replace("prompts: 60", "prompts: 1999"), change=file)
    with pytest.raises(
        InputError, match=r"traffic\.jsonl holds 7000 requests, of which the timed cells take \d+; greed"
    ):
        questions(few, 0)


def test_some_items_of_a_file(tmp_path: Path) -> None:
    items_file(tmp_path, [f"w{k}" for k in range(50)])
    asked = questions(plan_of(tmp_path, TASK.replace("within", "prompts: 40, within")), 0)
    assert len(asked) == 40
    numbers = [int(question.id[1:]) for question in asked]
    assert numbers == sorted({*numbers})
    assert all(question.answer == f"w{number}" for question, number in zip(asked, numbers, strict=True))


def test_an_answer_that_no_reply_can_match(tmp_path: Path) -> None:
    items_file(tmp_path, ["four"] * 40)
    plan = plan_of(tmp_path, TASK.replace("contains", "exact_number"))
    with pytest.raises(InputError, match="the answer of item q0 of task_metric \\(answers\\) holds no number"):
        require_questions(plan)


def test_built_in_arithmetic_is_right() -> None:
    """Each question, computed by Python from its words."""
    words = {"plus": "+", "minus": "-", "times": "*"}
    made = built_in("arithmetic", 5, 1000)
    assert len({question for question, _ in made}) == 1000
    assert made[:10] == built_in("arithmetic", 5, 10)
    assert made[:10] != built_in("arithmetic", 6, 10)
    for question, answer in made:
        (term,) = re.fullmatch(r"What is ([0-9a-z ]+)\?", question).groups()
        assert str(eval(re.sub("[a-z]+", lambda word: words[word[0]], term))) == answer
    assert {word for question, _ in made for word in words if word in question} == {*words}


def test_built_in_extraction_has_its_answer_once() -> None:
    made = built_in("extraction", 5, 1000)
    for question, answer in made:
        assert len(re.findall(rf"(?<!\w){re.escape(answer)}(?!\w)", question)) == 1, question


def test_a_completion_is_shown_examples() -> None:
    text = as_completion("arithmetic", "What is 1 plus 1?")
    assert text.startswith("Question: What is 12 plus 7?\nAnswer: 19\n\n")
    assert text.endswith("\n\nQuestion: What is 1 plus 1?\nAnswer:")


def test_passes(tmp_path: Path) -> None:
    """Greedy: three arms of 60 prompts; length: two of 40. 20 s and a timeout of 20 s each, five times."""
    plan = plan_of(tmp_path, GREEDY, LENGTH)
    assert passes(plan.card) == ["baseline", "candidate", "baseline_aa"]
    assert [askings(plan.card, arm) for arm in passes(plan.card)] == [100, 100, 60]
    assert longest_seconds(plan.card) == 5 * 40
    assert passes(plan_of(tmp_path, LENGTH).card) == ["baseline", "candidate"]
    # Six blocks and a spare: servers of the gates belong to blocks of their own.
    places = [place_of(plan, arm) for arm in passes(plan.card)]
    assert [(place.arm, place.block) for place in places] == [("baseline", 8), ("candidate", 8), ("baseline", 9)]
