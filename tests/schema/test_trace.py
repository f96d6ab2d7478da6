"""Readers of traces: moments and lengths computed by hand, and every fault located in the words a person reads."""

from __future__ import annotations

import pytest
from benchcard.schema.table import FileError
from benchcard.schema.trace import Trace, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
CSV = "timestamp,input_tokens,output_tokens\n"


def read(text: str, format_: str, unit: str | None = None, hash_block: int | None = None) -> Trace:
    return read_trace(text.encode(), format_, unit, hash_block=hash_block)


def refusal(text: str | bytes, format_: str, unit: str | None = None, hash_block: int | None = None) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(FileError) as caught:
        read_trace(data, format_, unit, hash_block=hash_block)
    error = caught.value
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.line}:{error.column}: {error.found}; wanted {error.wanted}{hint}"


def row(timestamp: object = 0, prompt: object = 40, output: object = 5, ids: object = "[1]") -> str:
    return f'{{"timestamp": {timestamp}, "input_length": {prompt}, "output_length": {output}, "hash_ids": {ids}}}\n'


class TestAzure:
    """Wall clocks with up to nine decimals."""

    def test_seven_decimals_are_exact_nanoseconds(self) -> None:
        # 46.6805900 -> 50.9951690 is 4.3145790 s; a double holds a wall clock of 2023 to some 240 ns only
        trace = read(AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n", "azure")
        assert list(trace.offsets) == [0, 4_314_579_000]
        assert (list(trace.input_tokens), list(trace.output_tokens)) == ([374, 396], [44, 109])
        assert trace.hash_ids is None
        assert (trace.rows, trace.left_out, trace.mean_output, trace.span_ns) == (2, 0, 76.5, 4_314_579_000)
        assert trace.rate == 1 / 4.314579

    def test_across_midnight_and_a_leap_day(self) -> None:
        text = AZURE + "2024-02-28 23:59:59.9999999,1,1\n2024-02-29 00:00:00,1,1\n2024-03-01 00:00:00.5,1,1\n"
        assert list(read(text, "azure").offsets) == [0, 100, 86_400_500_000_100]

    def test_zones(self) -> None:
        # 00:30 at +02:00 is 22:30 of the day before, UTC; 17:31 at -05:00 is 22:31
        text = (
            AZURE + "2024-05-10T00:30:00.123456789+02:00,1,1\n2024-05-09 22:30:01Z,1,1\n2024-05-09 17:31:00-05:00,1,1\n"
        )
        assert list(read(text, "azure").offsets) == [0, 876_543_211, 59_876_543_211]

    def test_some_with_a_zone_and_some_without(self) -> None:
        text = AZURE + "2024-05-10 00:00:00+02:00,1,1\n2024-05-10 00:00:01,1,1\n"
        assert refusal(text, "azure") == (
            "3:1: the timestamp 2024-05-10 00:00:01, without a zone; wanted one with it, as in the rows before"
        )

    @pytest.mark.parametrize(
        "stamp",
        [
            "12.5",
            "2023-02-29 00:00:00",
            "2023-11-16 24:00:01",
            "2023-11-16",
            "1969-12-31 23:59:59",
            "9999-01-01 00:00:00",
            "0001-01-01 00:00:00+14:00",
            "2023-11-16 18:15:46.1234567890",
            "２０２３-11-16 18:15:46",
            "",
        ],
    )
    def test_no_wall_clock(self, stamp: str) -> None:
        assert refusal(f"{AZURE}{stamp},1,1\n", "azure") == (
            f"2:1: the timestamp {stamp or repr('')}; wanted a wall clock such as 2023-11-16 18:15:46.6805900"
        )


class TestMooncake:
    """JSON lines in milliseconds, with ids of shared blocks."""

    def test_rows_of_one_moment_and_a_partial_last_block(self) -> None:
        text = row(27482, 33, 5, "[0, 1, 2]") + row(27482, 32, 6, "[0, 3]") + row(30535, 7, 7, "[]")
        text += row(30535, 40, 5, "[1, 4, 5]")
        trace = read(text, "mooncake", hash_block=16)
        assert list(trace.offsets) == [0, 0, 3_053_000_000, 3_053_000_000]
        assert list(trace.input_tokens) == [33, 32, 7, 40]
        assert trace.hash_ids == [(0, 1, 2), (0, 3), (), (1, 4, 5)]
        assert trace.mean_output == 5.75  # (5 + 6 + 7 + 5) / 4
        assert trace.rate == 3 / 3.053

    def test_rows_may_have_no_ids_and_more_keys(self) -> None:
        text = '{"timestamp":0,"input_length":1,"output_length":1}\n'
        text += '{"x":0.5,"timestamp":1,"input_length":1,"output_length":2}'
        assert read(text, "mooncake").hash_ids == [(), ()]

    @pytest.mark.parametrize(("tokens", "wanted"), [(32, 2), (49, 4)])
    def test_more_ids_than_blocks_or_fewer(self, tokens: int, wanted: int) -> None:
        said = refusal(row(0, 33, 5, "[0, 1, 2]") + row(1, tokens, 5, "[0, 1, 2]"), "mooncake", hash_block=16)
        assert said == (
            f"2:1: 3 hash_ids for {tokens} prompt tokens; wanted {wanted}, of 16 tokens each, or none "
            "(the last may be shorter; the card's hash_block says how long the others are)"
        )

    def test_seconds_are_refused_until_the_card_says_so(self) -> None:
        text = row("0.0") + row("1.5")
        assert refusal(text, "mooncake") == (
            "2:1: the timestamp 1.5; wanted whole milliseconds, which mooncake has "
            "(seconds? then the card says so: unit: s; fractions of milliseconds: unit: ms)"
        )
        assert list(read(text, "mooncake", "s").offsets) == [0, 1_500_000_000]
        assert list(read(text, "mooncake", "ms").offsets) == [0, 1_500_000]

    def test_decimals_in_json_are_exact(self) -> None:
        # as doubles these two differ by 238 ns or by nothing
        text = row("1700000000.123456789") + row("1700000000.123456790")
        assert list(read(text, "mooncake", "s").offsets) == [0, 1]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (
                '{"input_length": 1, "output_length": 1}',
                "a row without timestamp; wanted timestamp (ms), input_length and "
                "output_length (there are input_length, output_length)",
            ),
            (row("true"), "the timestamp true; wanted a number from 0 up"),
            (row("null"), "the timestamp nothing; wanted a number from 0 up"),
            (row(-1), "the timestamp -1; wanted a number from 0 up"),
            (row("[0]"), "the timestamp a list of 1; wanted a number from 0 up"),
            (row(10**30), "the timestamp 1000000000000000000000000000000; wanted a number from 0 up"),
            (row("9" * 5000), "a number that is too long; wanted a number that a computer can hold"),
            (row("NaN"), "NaN, which is not JSON; wanted JSON that every reader reads alike"),
            (row("-Infinity"), "-Infinity, which is not JSON; wanted JSON that every reader reads alike"),
            (row(prompt=0), "prompt tokens 0; wanted a whole number from 1 to 10,000,000"),
            (row(prompt=-3), "prompt tokens -3; wanted a whole number from 1 to 10,000,000"),
            (row(prompt=1.5), "prompt tokens 1.5; wanted a whole number from 1 to 10,000,000"),
            (row(prompt="1e999999999"), "prompt tokens 1E+999999999; wanted a whole number from 1 to 10,000,000"),
            (row(prompt="true"), "prompt tokens true; wanted a whole number from 1 to 10,000,000"),
            (row(output="null"), "output tokens nothing; wanted a whole number from 1 to 10,000,000"),
            (row(output=10_000_001), "output tokens 10000001; wanted a whole number from 1 to 10,000,000"),
            (row(ids="[1, true]"), "hash_ids a list of 2; wanted a list of whole numbers"),
            (row(ids="[-1]"), "hash_ids a list of 1; wanted a list of whole numbers"),
            (row(ids="[1.0]"), "hash_ids a list of 1; wanted a list of whole numbers"),
            (row(ids='"12"'), "hash_ids 12; wanted a list of whole numbers"),
            (row(ids=f"[{2**62}]"), "hash_ids a list of 1; wanted a list of whole numbers"),
            ("[1]", "a list of 1; wanted one JSON object a line"),
            (
                '{"timestamp": 1, "timestamp": 2}',
                "the key timestamp twice in one object; wanted JSON that every reader reads alike",
            ),
            ("[" * 100_000, "lists or objects nested too deeply; wanted JSON of a sane depth"),
        ],
    )
    def test_a_row_that_is_wrong(self, line: str, said: str) -> None:
        assert refusal(row() + "\n" + line, "mooncake") == f"3:1: {said}"

    def test_a_row_that_is_no_json_has_its_column(self) -> None:
        assert (
            refusal(row() + '{"timestamp": }', "mooncake")
            == "2:15: text that is not JSON (expecting value); wanted JSON"
        )
        assert refusal(row() + "{} {}", "mooncake") == "2:4: more after the object; wanted one JSON object a line"


class TestBurstGPT:
    """Seconds with decimals; a request of 0 response tokens failed."""

    def test_failed_requests_are_left_out_and_counted(self) -> None:
        text = BURSTGPT + "5,ChatGPT,472,0,472,API log\n45.25,GPT-4,1087,230,1317,API log\n"
        text += "118.5,ChatGPT,417,276,693,API log\n119,ChatGPT,9,0,9,API log\n"
        trace = read(text, "burstgpt")
        # the first that counts is the beginning: 118.5 - 45.25 = 73.25
        assert list(trace.offsets) == [0, 73_250_000_000]
        assert (list(trace.input_tokens), list(trace.output_tokens), trace.left_out) == ([1087, 417], [230, 276], 2)
        assert trace.rate == 1 / 73.25

    def test_nothing_but_failures(self) -> None:
        text = BURSTGPT + "5,ChatGPT,472,0,472,API log\n6,ChatGPT,472,0,472,API log\n"
        assert refusal(text, "burstgpt") == "0:1: nothing but failed requests (2); wanted at least one request"

    def test_milliseconds_read_as_seconds(self) -> None:
        rows = "".join(f"{500 * i},ChatGPT,10,10,20,API log\n" for i in range(9))
        assert refusal(BURSTGPT + rows, "burstgpt") == (
            "2:1: timestamps with a mean gap of 500 s; wanted those of a service's traffic "
            "(if they are in another unit, the card says so: unit: ms; if they are right, too: unit: s)"
        )
        assert read(BURSTGPT + rows, "burstgpt", "ms").rate == 2.0
        assert read(BURSTGPT + rows, "burstgpt", "s").rate == 1 / 500


class TestCsv:
    """The plain table, whose unit the card says."""

    @pytest.mark.parametrize(("unit", "ns"), [("s", 1_500_000_000), ("ms", 1_500_000), ("us", 1_500), ("ns", 2)])
    def test_units(self, unit: str, ns: int) -> None:
        # 1.5 ns is between 1 and 2, and rounds to the even one
        assert list(read(CSV + "0,1,1\n1.5,2,3\n", "csv", unit).offsets) == [0, ns]

    def test_without_a_unit(self) -> None:
        assert refusal(CSV + "0,1,1\n", "csv") == (
            "1:1: timestamps without a unit; wanted the key unit on the card, as in unit: ms"
        )

    def test_names_columns_and_line_ends_as_others_write_them(self) -> None:
        text = (
            '\ufeff\r\n"Output Tokens",model,TIMESTAMP,inputtokens\r\n 7 ,"a,\r\nb",1e3,9.0\r\n\r\n  \r\n8,,2E3,10\r\n'
        )
        trace = read(text, "csv", "ms")
        assert list(trace.offsets) == [0, 10**9]
        assert (list(trace.input_tokens), list(trace.output_tokens)) == ([9, 10], [7, 8])

    def test_lengths_alone(self) -> None:
        trace = read_trace(b"output_tokens,input_tokens\n3,100\n4,200\n", "csv", timed=False)
        assert (list(trace.offsets), list(trace.input_tokens), list(trace.output_tokens)) == ([], [100, 200], [3, 4])
        assert (trace.rows, trace.mean_output, trace.span_ns) == (2, 3.5, 0)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "1:1: an empty file; wanted a header with timestamp, input_tokens, output_tokens"),
            (CSV, "0:1: no rows; wanted at least one request"),
            (CSV + "3,1,1\n", "0:1: requests of one moment; wanted at least two requests at different times"),
            (CSV + "3,1,1\n3,1,1\n", "0:1: requests of one moment; wanted at least two requests at different times"),
            (
                "timestamp,tokens\n1,2\n",
                "1:1: a header without input_tokens; wanted the columns timestamp, input_tokens, "
                "output_tokens (there are timestamp, tokens)",
            ),
            (
                "timestamp,input_tokens,Timestamp,output_tokens\n",
                "1:1: a header with timestamp twice; wanted the columns "
                "timestamp, input_tokens, output_tokens (there are timestamp, input_tokens, Timestamp, output_tokens)",
            ),
            (CSV + "1,2,3\n\n2,3\n", "4:1: a row of 2 fields; wanted 3, as in the header"),
            (CSV + "1\n", "2:1: a row of 1 field; wanted 3, as in the header"),
            (CSV + '1,2,"3\n', "2:1: a row that is not CSV (unexpected end of data); wanted CSV"),
            ('"timestamp\n', "1:1: a row that is not CSV (unexpected end of data); wanted CSV"),
            (
                CSV + "2,1,1\n1.5,1,1\n",
                "3:1: the timestamp 1.5, earlier than the row before; wanted timestamps that do not "
                "go back (sort the file by its timestamps)",
            ),
            (CSV + "nan,1,1\n", "2:1: the timestamp nan; wanted a number from 0 up"),
            (CSV + "inf,1,1\n", "2:1: the timestamp inf; wanted a number from 0 up"),
            (CSV + "-1,1,1\n", "2:1: the timestamp -1; wanted a number from 0 up"),
            (CSV + "1e999999999,1,1\n", "2:1: the timestamp 1e999999999; wanted a number from 0 up"),
            (CSV + "1e99,1,1\n", "2:1: the timestamp 1e99; wanted a number from 0 up"),
            (CSV + "1_000,1,1\n", "2:1: the timestamp 1_000; wanted a number from 0 up"),
            (CSV + ",1,1\n", "2:1: the timestamp ''; wanted a number from 0 up"),
            (CSV + "True,1,1\n", "2:1: the timestamp True; wanted a number from 0 up"),
            (CSV + "0,1e3,1\n", "2:1: prompt tokens 1e3; wanted a whole number from 1 to 10,000,000"),
            (CSV + "0,1,0\n", "2:1: output tokens 0; wanted a whole number from 1 to 10,000,000"),
            (CSV + "0,٣,1\n", "2:1: prompt tokens ٣; wanted a whole number from 1 to 10,000,000"),
        ],
    )
    def test_a_table_that_is_wrong(self, text: str, said: str) -> None:
        assert refusal(text, "csv", "s") == said

    def test_not_utf_8(self) -> None:
        assert refusal(CSV.encode() + b"1,2,3\n1,\xff2,3\n", "csv", "s") == "3:3: the byte 0xff; wanted text in UTF-8"
        assert refusal("timestamp".encode("utf-16"), "csv", "s") == "1:1: the byte 0xff; wanted text in UTF-8"

    def test_a_field_of_insane_length(self) -> None:
        text = CSV + f"{'1' * 200_000},1,1\n"
        assert (
            refusal(text, "csv", "s")
            == "2:1: a row that is not CSV (field larger than field limit (131072)); wanted CSV"
        )
