"""`benchcard explain`: the page of every key, in the words a person reads."""

from __future__ import annotations

import pytest
from benchcard.schema.errors import InputError
from benchcard.schema.explain import explain
from benchcard.schema.structure import card_schema, keys_below

KEYS = [path for path, _ in keys_below(card_schema())]


def test_a_page() -> None:
    assert explain("workload.window.drain") == (
        """\
workload.window.drain

How long the load goes on, uncounted, while the last counted attempts end. At least
client.timeout_total.

Guards against: Late requests that see an emptying server look fast, and slow ones that are cut off
go missing.

value:    a duration such as 600 ms, 60 s, 90 min or 8 h, at least 0 s
default:  client.timeout_total
"""
    )


def test_a_page_of_a_list_and_its_keys() -> None:
    assert explain("evidence") == (
        """\
evidence

What the server's own counters must show if the treatment took effect.

Guards against: A flag that was accepted and did nothing: the verdict would be about two equal
systems.

value:    a list
default:  []
only for: kind ab

keys below it:
  metric               A metric of the server's own: server.prefix_cache_hit_rate,
                       server.spec_decode_acceptance_length, server.spec_decode_acceptance_rate,
                       server.preemptions (per request), server.kv_cache_usage.mean,
                       server.kv_cache_usage.max, server.queue.mean or server.iteration_tokens.mean.
  arm                  The arm that must show it.
  at_least             The smallest value that counts as 'it took effect' (20%, or 1.5 for a
                       length).
  at_most              The largest value that counts as 'it was off' (0%).
"""
    )


def test_a_page_of_what_is_not_yet_supported() -> None:
    assert "status:   not yet supported: prompts that are not text" in explain("workload.modality")


@pytest.mark.parametrize("path", KEYS)
def test_every_key_has_a_page(path: str) -> None:
    page = explain(path)
    assert page.startswith(path + "\n")
    assert "Guards against: " in page
    assert all(len(line) <= 100 for line in page.splitlines())


def test_indexes_do_not_matter() -> None:
    assert explain("guards[0].at") == explain("guards[].at") == explain("guards.at")


def test_keys_of_what_has_a_name_of_the_users_own() -> None:
    assert explain("workload.populations.chat.share") == (
        """\
workload.populations.NAME.share

Its share of the requests; each is drawn by itself, and the shares add up to 100%.

Guards against: A mix that drifts from the declared one, because a kind that is slow comes less
often.

value:    a percentage such as 5%, more than 0%, less than 100%
"""
    )
    assert explain("workload.populations.NAME.share") == explain("workload.populations.chat.share")
    for path in ("lengths.output.sigma", "sampling.top_p", "objectives.ttft.at_most"):
        assert explain(f"workload.populations.chat.{path}").startswith(f"workload.populations.NAME.{path}\n")


def test_the_page_of_populations_has_the_keys_of_one() -> None:
    assert explain("workload.populations") == (
        """\
workload.populations

Kinds of request, by name, that are mixed and reported apart. What one does not name itself is as in
`requests`, `sampling`, `priority` and `objectives`.

Guards against: An average over two kinds of traffic in which one gets better and the other worse.

keys below it:
  NAME                 A kind of request.
"""
    )


def test_a_flag_is_explained_by_where_it_stands() -> None:
    assert explain("system.flags.max-num-seqs") == explain("system.flags")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("workload.windw.drain", "(did you mean workload.window.drain?)"),
        ("drain", "(did you mean workload.window.drain?)"),
        ("think", "(did you mean workload.requests.conversations.think?)"),
        (
            "think-time",
            "(did you mean workload.arrivals.think_time or workload.requests.conversations.think_time?)",
        ),
        ("workload.populations.chat.shar", "(did you mean workload.populations.NAME.share?)"),
        ("workload.populations.chat.lengths.inptu", "(did you mean workload.populations.NAME.lengths.input?)"),
        ("system.wibble", "found the unknown key system.wibble; wanted a key of the card"),
        ("", "found the unknown key ''; wanted a key of the card"),
    ],
)
def test_an_unknown_key(path: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        explain(path)
    assert said in str(caught.value)


def test_the_overview_has_every_key_on_a_line() -> None:
    lines = explain().splitlines()
    assert [line.split()[0] for line in lines] == KEYS
