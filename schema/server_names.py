"""The names under which servers expose what the analysis reads, over the releases that it knows.

A quantity has one canonical name here and any number of names on a metrics page; where several are exposed at once (a
release that renames a metric keeps the old one for a while) the first of the row is read. `analysis/server_names.py`
holds the same table (the analysis imports nothing of ours); a test compares the two. Counters and histograms are named
without the suffixes of their samples (`_total`; `_sum`, `_count`, `_bucket`).

Sources: vLLM's metrics documentation and metrics modules from 0.6 to 0.32 (KV-cache use was gpu_cache_usage_perc until
0.10, prefix counters gpu_prefix_cache_* until 0.9, the inter-token histogram time_per_output_token_seconds until 0.11);
SGLang's and TGI's documentation of their metrics.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerName:
    """A quantity that servers expose: canonical name, kind (counter, gauge, histogram), unit, names on the page."""

    name: str
    kind: str
    unit: str
    exposed: tuple[str, ...]

    def samples(self, exposed: str) -> tuple[str, ...]:
        """The samples that carry it on a page; a histogram's buckets are none of them."""
        if self.kind == "counter":
            return (f"{exposed}_total",)
        return (f"{exposed}_sum", f"{exposed}_count") if self.kind == "histogram" else (exposed,)


def _counter(name: str, unit: str, *exposed: str) -> ServerName:
    return ServerName(name, "counter", unit, exposed)


def _gauge(name: str, unit: str, *exposed: str) -> ServerName:
    return ServerName(name, "gauge", unit, exposed)


def _histogram(name: str, unit: str, *exposed: str) -> ServerName:
    return ServerName(name, "histogram", unit, exposed)


SERVER_NAMES: tuple[ServerName, ...] = (
    _gauge("running", "requests", "vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size"),
    _gauge("waiting", "requests", "vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size"),
    _gauge("kv_usage", "1", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
    _counter("finished", "requests", "vllm:request_success"),
    _counter("prompt_tokens", "tokens", "vllm:prompt_tokens", "sglang:prompt_tokens"),
    _counter("generation_tokens", "tokens", "vllm:generation_tokens", "sglang:generation_tokens"),
    _counter("preemptions", "preemptions", "vllm:num_preemptions"),
    _counter(
        "prefix_queries", "tokens",
        "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens",
    ),
    _counter("prefix_hits", "tokens", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens"),
    _counter("drafts", "steps", "vllm:spec_decode_num_drafts"),
    _counter("draft_tokens", "tokens", "vllm:spec_decode_num_draft_tokens"),
    _counter("accepted_tokens", "tokens", "vllm:spec_decode_num_accepted_tokens"),
    _histogram("iteration_tokens", "tokens", "vllm:iteration_tokens_total"),
    _histogram("ttft", "s", "vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    _histogram(
        "itl", "s",
        "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds", "sglang:inter_token_latency_seconds",
    ),
    _histogram("e2e", "s", "vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"),
    _histogram("queue_time", "s", "vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),
    _histogram("prefill_time", "s", "vllm:request_prefill_time_seconds"),
    _histogram("decode_time", "s", "vllm:request_decode_time_seconds"),
)  # fmt: skip

#: when the server's process began, as Unix time; another value means another process
PROCESS_START = "process_start_time_seconds"


def watched() -> frozenset[str]:
    """The samples that are kept of each page read while a load runs: gauges, counters, and the process's start."""
    kinds = ("gauge", "counter")
    rows = (row for row in SERVER_NAMES if row.kind in kinds)
    return frozenset([PROCESS_START, *(s for row in rows for name in row.exposed for s in row.samples(name))])


def dated() -> frozenset[str]:
    """The `_created` samples that are kept before and after a load: when a counter was made, which changes where it
    was reset."""
    return frozenset(f"{name}_created" for row in SERVER_NAMES if row.kind != "gauge" for name in row.exposed)
