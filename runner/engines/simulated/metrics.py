"""The engine's own metrics, under vLLM's names and labels, in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .config import EngineConfig
from .scheduler import Scheduler
from .sequence import Step

# The bounds of vLLM's histograms, in seconds.
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip

ITERATION_BUCKETS = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
)  # fmt: skip

#: why a request ended, as vLLM counts it; the word model has no end-of-sequence token: `stop` is a reply that was cut
FINISH_REASONS = ("stop", "length", "abort", "error")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of observations by bucket, and their sum; durations in seconds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, nanoseconds: int | float) -> None:
        """Count one duration, given in ns."""
        self.count(nanoseconds / 1e9)

    def count(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound."""
        cumulative, result = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            cumulative += count
            result.append((bound, float(cumulative)))
        return result


class EngineMetrics(Collector):
    """What has been counted. `step` is the step under way, or None when the engine is idle."""

    def __init__(self, config: EngineConfig, scheduler: Scheduler, model: str) -> None:
        self._config = config
        self._scheduler = scheduler
        self._labels = {"model_name": model, "engine": "0"}
        self.step: Step | None = None
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = dict.fromkeys(FINISH_REASONS, 0)
        self.ttft = Histogram(TTFT_BUCKETS)
        self.itl = Histogram(TOKEN_BUCKETS)
        self.tpot = Histogram(TOKEN_BUCKETS)
        self.e2e = Histogram(LATENCY_BUCKETS)
        self.queue = Histogram(LATENCY_BUCKETS)
        self.prefill = Histogram(LATENCY_BUCKETS)
        self.decode = Histogram(LATENCY_BUCKETS)
        self.iteration_tokens = Histogram(ITERATION_BUCKETS)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        # When this process started and what it used, as every server with this library shows.
        ProcessCollector(registry=self._registry)

    def finish(self, reason: str, arrival_ns: int, sent_ns: list[int], admitted_ns: int | None = None) -> None:
        """A request ended for that reason; its tokens went out at `sent_ns`, and it was first run at `admitted_ns`."""
        self.finished[reason] += 1
        if not sent_ns:
            return
        self.ttft.observe(sent_ns[0] - arrival_ns)
        for former, latter in pairwise(sent_ns):
            self.itl.observe(latter - former)
        if reason not in ("length", "stop"):
            return
        self.e2e.observe(sent_ns[-1] - arrival_ns)
        self.decode.observe(sent_ns[-1] - sent_ns[0])
        if admitted_ns is not None:
            self.queue.observe(admitted_ns - arrival_ns)
            self.prefill.observe(sent_ns[0] - admitted_ns)
        if len(sent_ns) > 1:
            self.tpot.observe((sent_ns[-1] - sent_ns[0]) / (len(sent_ns) - 1))

    def text(self) -> bytes:
        """Everything, as `/metrics` shows it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The metric families, for prometheus_client."""
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()
        yield self._cache_config()

    def _gauges(self) -> Iterator[Metric]:
        step = self.step
        usage = step.blocks_used / self._config.num_blocks if step else 0.0
        for name, meaning, value in (
            ("num_requests_running", "Number of requests in model execution batches.", step.running if step else 0),
            ("num_requests_waiting", "Number of requests waiting to be processed.", step.waiting if step else 0),
            ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage),
        ):
            gauge = GaugeMetricFamily(f"vllm:{name}", meaning, labels=list(self._labels))
            gauge.add_metric(list(self._labels.values()), value)
            yield gauge

    def _counters(self) -> Iterator[Metric]:
        scheduler = self._scheduler
        for name, meaning, value in (
            ("prefix_cache_queries", "Prefix cache queries, in number of queried tokens.", scheduler.kv.queries),
            ("prefix_cache_hits", "Prefix cache hits, in number of cached tokens.", scheduler.kv.hits),
            ("num_preemptions", "Cumulative number of preemption from the engine.", scheduler.preemptions),
            ("prompt_tokens", "Number of prefill tokens processed.", self.prompt_tokens),
            ("generation_tokens", "Number of generation tokens processed.", self.generation_tokens),
        ):
            counter = CounterMetricFamily(f"vllm:{name}", meaning, labels=list(self._labels))
            counter.add_metric(list(self._labels.values()), value)
            yield counter
        success = CounterMetricFamily(
            "vllm:request_success", "Count of processed requests, by reason.", labels=[*self._labels, "finished_reason"]
        )
        for reason, value in self.finished.items():
            success.add_metric([*self._labels.values(), reason], value)
        yield success

    def _histograms(self) -> Iterator[Metric]:
        for name, meaning, histogram in (
            ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", self.ttft),
            ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", self.itl),
            ("request_time_per_output_token_seconds", "Histogram of time per output token, by request.", self.tpot),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", self.e2e),
            ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", self.queue),
            ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", self.prefill),
            ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", self.decode),
            ("iteration_tokens_total", "Histogram of number of tokens per engine_step.", self.iteration_tokens),
        ):
            family = HistogramMetricFamily(f"vllm:{name}", meaning, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), histogram.buckets(), histogram.total)
            yield family

    def _cache_config(self) -> Metric:
        config = self._config
        values = {
            "block_size": config.block_size,
            "cache_dtype": "auto",
            "enable_prefix_caching": config.prefix_caching,
            "engine": 0,
            "kv_cache_memory_bytes": config.kv_cache_bytes,
            "kv_cache_size_tokens": config.num_blocks * config.block_size,
            "num_gpu_blocks": config.num_blocks,
            "prefix_caching_hash_algo": "blake2b",
        }
        info = GaugeMetricFamily(
            "vllm:cache_config_info", "Information of the LLMEngine CacheConfig", labels=list(values)
        )
        info.add_metric([str(value) for value in values.values()], 1)
        return info
