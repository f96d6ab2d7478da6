"""Readers of recorded requests: prompts as they stand in the file, every fault located, in the words a person reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchcard.schema.recorded import Recorded, read_recorded
from benchcard.schema.table import FileError


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def prompts(recorded: Recorded) -> list[Any]:
    return [request.prompt for request in recorded.requests]


def refusal(data: bytes, format_: str = "jsonl", endpoint: str = "completions") -> str:
    with pytest.raises(FileError) as caught:
        read_recorded(data, format_, endpoint)
    error = caught.value
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.line}:{error.column}: {error.found}; wanted {error.wanted}{hint}"


def user(content: object, role: object = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content}]}


class TestJsonLines:
    """A prompt or messages in each line."""

    def test_text_and_token_ids(self) -> None:
        data = lines({"prompt": " Who?\n", "output_tokens": 16}, {"prompt": [5, 0, 7], "output_tokens": 9, "id": "x"})
        recorded = read_recorded(data, "jsonl", "completions")
        assert prompts(recorded) == [" Who?\n", [5, 0, 7]]
        assert [request.output_tokens for request in recorded.requests] == [16, 9]
        assert [request.as_bytes() for request in recorded.requests] == [b'" Who?\\n"', b"[5,0,7]"]
        assert (recorded.rows, recorded.left_out, recorded.mean_output) == (2, 0, 12.5)

    def test_a_text_is_a_users_message_to_a_chat(self) -> None:
        assert prompts(read_recorded(lines({"prompt": "Who?"}), "jsonl", "chat")) == [
            [{"role": "user", "content": "Who?"}]
        ]

    def test_messages_and_their_text_parts(self) -> None:
        said = [
            {"role": "system", "content": "Be short."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "wrote it?"}],
                "name": "x",
            },
            {"role": "assistant", "content": "Nobody."},
            {"role": "user", "content": "And why?"},
        ]
        [read] = prompts(read_recorded(lines({"messages": said}), "jsonl", "chat"))
        assert [message["content"] for message in read] == ["Be short.", "Who wrote it?", "Nobody.", "And why?"]
        assert read[1] == {"role": "user", "content": "Who wrote it?"}

    def test_output_tokens_may_be_missing_or_be_called_max_tokens(self) -> None:
        data = lines({"prompt": "a", "max_tokens": 3}, {"prompt": "b"}, {"prompt": "c", "output_tokens": None})
        recorded = read_recorded(data, "jsonl", "completions")
        assert [request.output_tokens for request in recorded.requests] == [3, None, None]
        assert recorded.mean_output is None

    def test_a_line_ends_with_a_line_feed_and_nothing_else(self) -> None:
        """U+2028, U+0085 and vertical tabs are text inside a JSON string; str.splitlines would cut there."""
        data = '\ufeff{"prompt": "one\u2028two\u0085three"}\r\n\r\n{"prompt": "four"}'.encode()
        assert prompts(read_recorded(data, "jsonl", "completions")) == ["one\u2028two\u0085three", "four"]

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            ({}, "a row without prompt or messages; wanted one of them (there are no keys)"),
            ({"text": "x"}, "a row without prompt or messages; wanted one of them (there are text)"),
            (
                {"prompt": "x", **user("y")},
                "a row with prompt and messages; wanted one of them (there are prompt, messages)",
            ),
            ({"prompt": ""}, "the prompt ''; wanted text, or a list of token ids"),
            ({"prompt": None}, "the prompt nothing; wanted text, or a list of token ids"),
            ({"prompt": []}, "the prompt an empty list; wanted text, or a list of token ids"),
            ({"prompt": [1, True]}, "the prompt a list of 2; wanted text, or a list of token ids"),
            ({"prompt": [-1]}, "the prompt a list of 1; wanted text, or a list of token ids"),
            ({"prompt": [2**31]}, "the prompt a list of 1; wanted text, or a list of token ids"),
            ({"prompt": ["x"]}, "the prompt a list of 1; wanted text, or a list of token ids"),
            ({"prompt": 1.5}, "the prompt 1.5; wanted text, or a list of token ids"),
            ({"prompt": "x", "output_tokens": 0}, "output_tokens 0; wanted a whole number from 1 up"),
            ({"prompt": "x", "output_tokens": True}, "output_tokens true; wanted a whole number from 1 up"),
            ({"prompt": "x", "output_tokens": 1.5}, "output_tokens 1.5; wanted a whole number from 1 up"),
            ({"prompt": "x", "output_tokens": "9"}, "output_tokens 9; wanted a whole number from 1 up"),
            (user("x"), "messages; wanted a prompt, which completions take (or endpoint: chat)"),
            ("x", "x; wanted one JSON object a line"),
        ],
    )
    def test_a_row_for_completions_that_is_wrong(self, row: object, said: str) -> None:
        assert refusal(lines({"prompt": "x"}, row)) == f"2:1: {said}"

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            ({"prompt": [1, 2]}, "token ids; wanted text or messages, which chat takes (or endpoint: completions)"),
            ({"messages": []}, "messages an empty list; wanted a list of {role, content}"),
            ({"messages": "x"}, "messages x; wanted a list of {role, content}"),
            ({"messages": ["x"]}, "the message x; wanted {role, content}"),
            (user("x", "tool"), "a message with the role tool; wanted system, user or assistant"),
            (user("x", None), "a message with the role nothing; wanted system, user or assistant"),
            (user("x", ["user"]), "a message with the role a list of 1; wanted system, user or assistant"),
            (user("x", "assistant"), "messages that do not end with the user's; wanted a question last"),
            (user(""), "a message with the content ''; wanted text"),
            (user(None), "a message with the content nothing; wanted text"),
            (user([]), "a message with the content ''; wanted text"),
            (
                user([{"type": "image_url", "image_url": {"url": "http://x"}}]),
                "a part of a message: image_url; wanted parts "
                "that are text: {type: text, text: …} (prompts that are not text are not supported)",
            ),
            (
                user([{"type": "text", "text": "see"}, {"type": "input_audio", "input_audio": {}}]),
                "a part of a message: input_audio; wanted parts that are text: {type: text, text: …} "
                "(prompts that are not text are not supported)",
            ),
            (
                user([{"type": "file", "text": "see"}]),
                "a part of a message: file; wanted parts that are text: {type: text, "
                "text: …} (prompts that are not text are not supported)",
            ),
            (
                user([{"image": "x"}]),
                "a part of a message: a mapping; wanted parts that are text: {type: text, text: …}",
            ),
            (user(["x"]), "a part of a message: x; wanted parts that are text: {type: text, text: …}"),
            (
                user([{"type": "text"}]),
                "a part of a message: a mapping; wanted parts that are text: {type: text, text: …}",
            ),
        ],
    )
    def test_a_row_for_chat_that_is_wrong(self, row: object, said: str) -> None:
        assert refusal(lines({"prompt": "x"}, row), endpoint="chat") == f"2:1: {said}"

    def test_text_that_is_none(self) -> None:
        assert refusal(b'{"prompt": "\\ud800"}') == "1:1: a lone surrogate; wanted text in Unicode"
        assert refusal(b'{"prompt": "x\xff"}') == "1:14: the byte 0xff; wanted text in UTF-8"
        assert refusal(b"") == "0:1: no requests; wanted at least one"
        assert refusal(b'\n{"prompt": "a", "prompt": "b"}') == (
            "2:1: the key prompt twice in one object; wanted JSON that every reader reads alike"
        )
        nested = b'{"prompt": ' * 100_000
        assert refusal(nested) == "1:1: lists or objects nested too deeply; wanted JSON of a sane depth"


def talk(*turns: tuple[object, object]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": value} for who, value in turns]}


class TestShareGpt:
    """Conversations, whose first question is the prompt."""

    def test_a_list_and_lines_are_read_alike(self) -> None:
        rows = [
            talk(("human", "Who wrote it?"), ("gpt", "Nobody."), ("human", "Why?")),
            talk(("system", "Be short."), ("user", "When?"), ("bing", "Never.")),
            talk(("gpt", "As I said:"), ("human", "  "), ("human", "Go on.")),
            talk(("gpt", "Alone.")),
            talk(),
        ]
        for data in (lines(*rows), json.dumps(rows, indent=2).encode(), b"\xef\xbb\xbf \n" + json.dumps(rows).encode()):
            recorded = read_recorded(data, "sharegpt", "completions")
            assert prompts(recorded) == ["Who wrote it?", "When?", "Go on."]
            assert (recorded.left_out, recorded.mean_output) == (2, None)
            assert prompts(read_recorded(data, "sharegpt", "chat"))[1] == [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "When?"},
            ]

    @pytest.mark.parametrize(
        ("row", "said"),
        [
            (
                {"items": []},
                "a row without a list of conversations; wanted conversations: a list of {from, value} "
                "(there are items)",
            ),
            (
                {"conversations": {}},
                "a row without a list of conversations; wanted conversations: a list of {from, value} "
                "(there are conversations)",
            ),
            ({"conversations": ["x"]}, "the turn x; wanted {from, value}"),
            (talk(("tool", "x")), "a turn from tool; wanted human, gpt or system"),
            (talk((None, "x")), "a turn from nothing; wanted human, gpt or system"),
            (talk((["human"], "x")), "a turn from a list of 1; wanted human, gpt or system"),
            (talk(("human", None)), "a turn with the value nothing; wanted text"),
            (talk(("human", ["x"])), "a turn with the value a list of 1; wanted text"),
        ],
    )
    def test_a_conversation_that_is_wrong(self, row: object, said: str) -> None:
        good = talk(("human", "x"))
        assert refusal(lines(good, row), "sharegpt") == f"2:1: {said}"
        assert refusal(f"[\n{json.dumps(good)},\n\n{json.dumps(row)}]".encode(), "sharegpt") == f"4:1: {said}"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[]", "0:1: no requests; wanted at least one"),
            ("[", "1:2: text that is not JSON (expecting value); wanted JSON"),
            ("[1]", "1:1: 1; wanted a list of objects"),
            ('[{"conversations": []}\n', "2:1: a list that does not end; wanted a comma or ]"),
            ('[{"conversations": []},\n]', "2:1: text that is not JSON (expecting value); wanted JSON"),
            ('[{"conversations": []}]\n x', "2:2: more after the list; wanted nothing"),
            (
                '[{"conversations": []},\n{"conversations": [}]',
                "2:20: text that is not JSON (expecting value); wanted JSON",
            ),
            (
                '[\n{"id": 1,\n"id": 2}]',
                "2:1: the key id twice in one object; wanted JSON that every reader reads alike",
            ),
        ],
    )
    def test_a_list_that_is_wrong(self, text: str, said: str) -> None:
        assert refusal(text.encode(), "sharegpt") == said
