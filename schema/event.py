"""The event record: one row an attempt, the columns of `events/<cell id>.parquet`.

All times are int64 nanoseconds of the monotonic clock since the run's monotonic epoch (the `epoch_ns` of the
`run_started` or `run_resumed` line in attempts.jsonl, which also holds the wall-clock anchor). A time that did not
happen is null. Latencies are not stored: the analysis derives them, counting from `scheduled`.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What became of an attempt. Only `ok` can be good. The order is the order in which reports list them.
OUTCOMES: dict[str, str] = {
    "ok": "a complete reply: HTTP 200, at least one token, and a finish reason",
    "http_error": "an HTTP status other than 200",
    "stream_error": "an error object inside a 200, or a reply that is not what HTTP and the API allow",
    "truncated": "the stream ended without a finish reason",
    "no_token": "a complete 200 that carried no token",
    "connect_error": "no connection was made, or it was lost before the first byte of the reply",
    "timeout_connect": "no connection within timeout_connect",
    "timeout_idle": "nothing was received for timeout_idle",
    "timeout_total": "not complete within timeout_total of the scheduled time",
    "cancelled": "ended by the client because the run was stopped",
    "client_error": "the client's own fault: no port, file descriptor or memory left",
    "unsent": "due, but never sent",
}

#: Kinds of failure, where one outcome has several causes. On an attempt that was tried more than once, what befell the
#: last try that failed.
FAILURES: dict[str, str] = {
    "refused": "the server's machine refused the connection",
    "reset": "the connection was reset while it was made",
    "unreachable": "no route to the server, or no answer from it",
    "dns": "the host's name did not resolve",
    "tls": "no TLS session: a certificate that was not accepted, or no common protocol",
    "no_port": "no local port was left",
    "no_descriptor": "no file descriptor was left",
    "no_memory": "the system had no memory for the connection",
    "lost": "the connection was lost before the first byte of the reply",
    "kept_alive_lost": "a kept-alive connection was closed while the request was on its way; it went out once more",
    "http_N": "the reply to a try before was HTTP status N",
    "other": "another error of the system, in the error text",
}

PHASES = ("warmup", "measure", "drain")

#: kinds of a token-bearing chunk, as in `chunk_kinds`
CHUNK_KINDS = ("content", "reasoning", "tool")


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, type (a polars type by name), unit ('' where it has none) and meaning."""

    name: str
    type: str
    unit: str
    meaning: str


EVENT_COLUMNS: tuple[Column, ...] = (
    Column("run", "String", "", "run id"),
    Column("cell", "String", "", "cell id, as in plan.json"),
    Column("block", "Int32", "", "block number, from 1; spares follow the planned blocks"),
    Column("arm", "String", "", "baseline or candidate; baseline_aa: the baseline's second run in an A/A block"),
    Column("load_point", "Int32", "", "index of the load point on the card, from 1"),
    Column(
        "load", "Float64", "req/s or concurrent", "the offered load: a rate (open loop) or a concurrency (closed loop)"
    ),
    Column("phase", "String", "", "warmup, measure (counted) or drain, by when it was scheduled"),
    Column("index", "Int64", "", "index of the planned request in its cell, from 0"),
    Column("population", "String", "", "population, where the card has several"),
    Column("conversation", "Int64", "", "conversation, for multi-turn workloads"),
    Column("turn", "Int32", "", "turn in its conversation, from 0"),
    Column("turns", "Int32", "", "planned turns of its conversation"),
    Column("prefix_group", "Int64", "", "which shared prefix (document) the prompt starts with"),
    Column(
        "prompt_digest",
        "String",
        "",
        "SHA-256 of the planned prompt, before any salt; of a later turn, of what it says itself",
    ),
    Column("asked_input_tokens", "Int32", "tokens", "planned prompt length"),
    Column("asked_output_tokens", "Int32", "tokens", "output length asked for (max_tokens)"),
    Column("own_tokens", "Int32", "tokens", "of the planned prompt: what it says itself, without document and history"),
    Column(
        "reusable_tokens",
        "Int32",
        "tokens",
        "of the planned prompt: its longest beginning that an earlier prompt (and answer) of the cell has, too; null "
        "for recorded text",
    ),
    Column("input_tokens", "Int32", "tokens", "prompt tokens, as the server reports"),
    Column("output_tokens", "Int32", "tokens", "output tokens, as the server reports"),
    Column("cached_tokens", "Int32", "tokens", "prompt tokens found in the prefix cache, as the server reports"),
    Column(
        "retokenized_tokens",
        "Int32",
        "tokens",
        "tokens of the output text by the card's tokenizer, without special ones; null where the card names none",
    ),
    Column("scheduled", "Int64", "ns", "when the workload says the request starts; latencies count from here"),
    Column("queued", "Int64", "ns", "when the client took the request up, ready to send it"),
    Column("connect_start", "Int64", "ns", "when a new connection was asked for; null on a reused one"),
    Column("connect_end", "Int64", "ns", "when the new connection stood"),
    Column("sent", "Int64", "ns", "when the request (its last try) was handed to the socket"),
    Column("headers", "Int64", "ns", "when the reply's headers were complete"),
    Column("first_chunk", "Int64", "ns", "when the first event of the reply's body was complete, token or not"),
    Column("first_token", "Int64", "ns", "when the first token-bearing chunk was complete"),
    Column("first_answer_token", "Int64", "ns", "when the first chunk with answer text (not reasoning) was complete"),
    Column("last_token", "Int64", "ns", "when the last token-bearing chunk was complete"),
    Column("end", "Int64", "ns", "when the reply (or the attempt) ended"),
    Column("chunk_times", "List(Int64)", "ns", "when each token-bearing chunk was complete, as read from the socket"),
    Column("chunk_bytes", "List(Int32)", "bytes", "UTF-8 bytes of text in each token-bearing chunk"),
    Column(
        "chunk_tokens", "List(Int32)", "tokens", "tokens in each token-bearing chunk, from the card's source of counts"
    ),
    Column(
        "chunk_tokens_retokenized",
        "List(Int32)",
        "tokens",
        "tokens of the output text by the card's tokenizer, each in the chunk that completes it; null without one",
    ),
    Column("chunk_kinds", "List(String)", "", "content, reasoning or tool, for each token-bearing chunk"),
    Column(
        "token_counts",
        "String",
        "",
        "source of chunk_tokens: chunk (one chunk is one token), per_chunk_usage or retokenized",
    ),
    Column("outcome", "String", "", "what became of the attempt: " + ", ".join(OUTCOMES)),
    Column("status", "Int32", "", "HTTP status"),
    Column("finish_reason", "String", "", "finish reason of the reply"),
    Column("failure", "String", "", "kind of failure: " + ", ".join(FAILURES)),
    Column("tries", "Int32", "", "how often the request was tried; latencies count from before the first"),
    Column("error", "String", "", "error text, redacted; a note on an ok attempt (no [DONE], not streamed)"),
    Column("streamed", "Boolean", "", "the reply was an event stream"),
    Column("reads", "Int32", "", "how often the socket was read; fewer reads than chunks means coalescing"),
    Column("reused", "Boolean", "", "sent on a kept-alive connection"),
    Column("worker", "Int32", "", "client worker process"),
    Column("fingerprint", "String", "", "system_fingerprint, as the server reports"),
    Column("output_digest", "String", "", "SHA-256 of the output text"),
)

#: telemetry/client-<cell>.parquet: one row, the client's view of itself over the cell
CLIENT_COLUMNS: tuple[Column, ...] = (
    Column("cell", "String", "", "cell id"),
    Column("load_start", "Int64", "ns", "time zero of the cell's schedule"),
    Column("load_end", "Int64", "ns", "when the last attempt had ended"),
    Column("window_start", "Int64", "ns", "start of the measured window; null where there was none"),
    Column("window_end", "Int64", "ns", "end of the measured window (exclusive)"),
    Column("wall_start", "Int64", "ns", "wall clock (Unix time) read at load_start"),
    Column("wall_end", "Int64", "ns", "wall clock (Unix time) read at load_end"),
    Column("cpu", "Int64", "ns", "CPU time of the busiest worker between load_start and load_end"),
    Column(
        "run_delay",
        "Int64",
        "ns",
        "how long the most starved worker was ready to run and had no core; null where the system does not say",
    ),
    Column(
        "loop_lag_p50",
        "Int64",
        "ns",
        "median lateness of a timer due every 10 ms in the window, of the worker with the worst p99",
    ),
    Column("loop_lag_p99", "Int64", "ns", "99th percentile of the same: how late a chunk's time may have been taken"),
    Column("loop_lag_max", "Int64", "ns", "the most of the same"),
    Column("peak_in_flight", "Int64", "", "most attempts under way at once (the sum of the workers' peaks)"),
    Column("reads", "Int64", "", "how often a socket was read"),
    Column("workers", "Int32", "", "worker processes of the client"),
    Column("loop", "String", "", "event loop: uvloop or asyncio"),
    Column("timer", "String", "", "what starts requests: a timerfd, or the event loop's millisecond timer"),
    Column("certificate", "Int32", "", "number of the instrument's certificate (instrument/<n>.json) of this sitting"),
    Column(
        "counted_planned", "Int64", "", "attempts the plan puts into the measured window; null where the load decides"
    ),
    Column("plan_exhausted", "Boolean", "", "the load outran the planned requests"),
)

#: telemetry/server-<cell>.parquet: the server's own metrics before, during and after the cell's load. Of `during` only
#: the gauges and counters that the analysis reads (schema/server_names.py); none in a bundle from before there was any
SERVER_COLUMNS: tuple[Column, ...] = (
    Column("cell", "String", "", "cell id"),
    Column("time", "Int64", "ns", "when the metrics were read"),
    Column("when", "String", "", "before, during or after the load"),
    Column("name", "String", "", "metric name as exposed, e.g. vllm:prefix_cache_hits_total"),
    Column("labels", "String", "", "labels as canonical JSON"),
    Column("value", "Float64", "", "sample value"),
)

#: telemetry/host-<cell>.parquet: the machine that benchcard ran on, sampled off the measured path while the load ran.
#: Counters as they stand, with the names of the Prometheus node exporter where it has one
HOST_COLUMNS: tuple[Column, ...] = (
    Column("cell", "String", "", "cell id"),
    Column("time", "Int64", "ns", "when the look began"),
    Column("name", "String", "", "what was read, e.g. node_cpu_seconds_total; the unit stands in the name"),
    Column("labels", "String", "", "labels as canonical JSON"),
    Column("value", "Float64", "", "sample value"),
)

#: telemetry/start-<cell>.parquet: one row, the start of the server that was started for the cell. Only on cards with
#: `workload.test: cold_start`, where the start is part of what is measured
START_COLUMNS: tuple[Column, ...] = (
    Column("cell", "String", "", "cell id"),
    Column("launched", "Int64", "ns", "when the server's process was launched, just before it was"),
    Column(
        "looked", "Int64", "ns", "when the last look began that found it not ready yet; null if the first found it so"
    ),
    Column("ready", "Int64", "ns", "when its answer came that it was ready; it became so after `looked`"),
)
