"""Event rows: what is secret is out of an error text before the text is cut."""

from __future__ import annotations

from pathlib import Path

from benchcard.runner.client.attempt import Attempt
from benchcard.runner.client.record import CellContext, event_row
from benchcard.runner.plan.blocks import Cell
from benchcard.runner.plan.requests import PlannedRequest

KEY = "sk-canary-0123456789"


def error_of(body: str, secrets: list[str] | None, status: int = 401, kind: str = "text/plain") -> str | None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    attempt = Attempt(0, "measure", 0, 0)
    attempt.reads, attempt.times, attempt.end = [(head + body).encode()], [1], 1
    cell, planned = Cell("c", 1, "baseline", 1, 1.0), PlannedRequest(0, "measure", 0, None, None, 0, 1, 1)
    row = event_row(CellContext("run", cell, 0, "chunk", [planned], ["d"], secrets), attempt)
    error: str | None = row["error"]
    return error


def test_a_key_that_the_server_echoes_is_in_no_row_not_even_in_part() -> None:
    for padding in (0, 300, *range(478, 502)):
        for error in (
            error_of("x" * padding + KEY, [KEY]),
            error_of(f'{{"error": {{"message": "{"x" * padding}{KEY}"}}}}', [KEY], kind="application/json"),
            error_of(f"data: {'x' * padding}{KEY}\n\n", [KEY], 200, "text/event-stream"),
        ):
            assert error is not None
            assert len(error) <= 500
            assert "sk-" not in error
            assert "canary" not in error


def test_of_a_page_of_errors_only_the_beginning_is_looked_at() -> None:
    long = "sk-" + "canary-0" * 2000
    assert error_of(f"start {KEY} " + "x" * 500_000, [KEY]) == "start [redacted] " + "x" * 483
    # Five keys and a piece of a sixth fill what is looked at.
    assert error_of(long * 6, [long]) == "[redacted]"


def test_where_the_keys_are_not_known_no_error_text_is_kept() -> None:
    assert error_of(KEY, None) is None


def test_salvage_knows_the_keys_of_the_card(tmp_path: Path) -> None:
    from benchcard.runner.measure import _secrets

    (tmp_path / "key").write_text(KEY + "\n")
    card = {"arms": {"baseline": {"server": {"api_key": {"file": str(tmp_path / "key")}}}, "candidate": {}}}
    assert _secrets(card) == [KEY]
    (tmp_path / "key").unlink()
    assert _secrets(card) is None
    assert _secrets({"arms": {"baseline": {"server": {"api_key": None}}}}) == []
