"""The engine's configuration: one table of flags in vLLM's spelling, for the command line and the model alike."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchcard.schema.errors import InputError

from .costs import Costs, costs_named
from .misbehave import FAULTS, Misbehaviour, parse_misbehaviour

GIB = 2**30

#: the longest context when neither the flags nor the KV cache say less
DEFAULT_MODEL_LEN = 32768


@dataclass(frozen=True)
class Flag:
    """A flag: its type (int, bool or str), its default (None: derived), and its meaning."""

    type: type[int] | type[bool] | type[str]
    default: int | bool | str | None
    meaning: str


FLAGS: dict[str, Flag] = {
    "max-num-seqs": Flag(int, 256, "sequences that run at once, at most"),
    "max-num-batched-tokens": Flag(int, 2048, "tokens in one step, at most; decodes come first, the rest is prefill"),
    "max-model-len": Flag(int, None, f"prompt and output together, at most; default {DEFAULT_MODEL_LEN}, or what fits"),
    "enable-prefix-caching": Flag(bool, True, "keep and reuse the KV blocks of prompts that begin alike"),
    "kv-cache": Flag(int, 35 * GIB, "bytes of KV cache"),
    "block-size": Flag(int, 16, "tokens in one KV block"),
    "misbehave": Flag(str, "", "do wrong on request: " + "; ".join(f"{e}: {m}" for e, m in FAULTS.values())),
}


@dataclass(frozen=True)
class EngineConfig:
    """What the scheduler needs to know. `epoch_ns` is the engine's start on the clock of the arrivals (for drift)."""

    costs: Costs
    speedup: float = 1.0
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = DEFAULT_MODEL_LEN
    prefix_caching: bool = True
    kv_cache_bytes: int = 35 * GIB
    block_size: int = 16
    misbehave: Misbehaviour = field(default_factory=Misbehaviour)
    epoch_ns: int = 0

    @property
    def num_blocks(self) -> int:
        """KV blocks that the cache has room for."""
        return blocks_that_fit(self.kv_cache_bytes, self.block_size, self.costs)

    def step_ns(self, decodes: int, prefill_tokens: int, step: int, start_ns: int) -> int:
        """Duration of step `step` (from 0), started at `start_ns`: costs × misbehaviour ÷ speedup, at least 1 ns."""
        base = self.costs.base_ns(decodes, prefill_tokens)
        return max(1, round(base * self.misbehave.factor(step, start_ns - self.epoch_ns) / self.speedup))

    def flags(self) -> dict[str, int | bool]:
        """The resolved flags, spelled with dashes."""
        return {
            "max-num-seqs": self.max_num_seqs,
            "max-num-batched-tokens": self.max_num_batched_tokens,
            "max-model-len": self.max_model_len,
            "enable-prefix-caching": self.prefix_caching,
            "kv-cache": self.kv_cache_bytes,
            "block-size": self.block_size,
        }


def blocks_that_fit(kv_cache_bytes: int, block_size: int, costs: Costs) -> int:
    """Whole KV blocks in that many bytes."""
    return kv_cache_bytes // (block_size * costs.kv_bytes_per_token)


def config_from_flags(
    flags: Mapping[str, object], *, costs: str = "atlas", speedup: float = 1.0, epoch_ns: int = 0
) -> EngineConfig:
    """The configuration that the server has when it is started with these flags.

    `flags` are spelled with dashes and hold what a card holds after it was resolved (sizes in bytes). `InputError`
    names the flag that is unknown, of the wrong type, or that does not fit the others.
    """
    values = {name: _value(name, flags.get(name)) for name in FLAGS}
    for name in flags:
        if name not in FLAGS:
            close = difflib.get_close_matches(name, FLAGS, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise InputError(f"--{name}: the simulated engine has no such flag{hint}; it has {', '.join(FLAGS)}")
    if not 0 < speedup < float("inf"):
        raise InputError(f"speedup: found {speedup}; wanted a number above 0")
    table = costs_named(costs)
    ints = {name: value for name, value in values.items() if isinstance(value, int) and not isinstance(value, bool)}
    capacity = blocks_that_fit(ints["kv-cache"], ints["block-size"], table) * ints["block-size"]
    config = EngineConfig(
        costs=table,
        speedup=float(speedup),
        max_num_seqs=ints["max-num-seqs"],
        max_num_batched_tokens=ints["max-num-batched-tokens"],
        max_model_len=ints.get("max-model-len", min(DEFAULT_MODEL_LEN, capacity)),
        prefix_caching=bool(values["enable-prefix-caching"]),
        kv_cache_bytes=ints["kv-cache"],
        block_size=ints["block-size"],
        misbehave=parse_misbehaviour(str(values["misbehave"])),
        epoch_ns=epoch_ns,
    )
    _check(config)
    return config


def _value(name: str, value: object) -> int | bool | str | None:
    """A flag's value, or its default; `InputError` if it is of another type."""
    flag = FLAGS[name]
    if value is None:
        return flag.default
    if flag.type is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is flag.type and (not isinstance(value, int) or isinstance(value, bool) or value > 0):
        assert isinstance(value, (int, bool, str))
        return value
    wanted = {int: "a whole number above 0", bool: "true or false", str: "text"}[flag.type]
    raise InputError(f"--{name}: found {value!r}; wanted {wanted}")


def _check(config: EngineConfig) -> None:
    """What the flags must fulfil together, as vLLM asks at its start."""
    capacity = config.num_blocks * config.block_size
    if config.max_model_len > capacity or capacity == 0:
        raise InputError(
            f"--max-model-len: {config.max_model_len} tokens do not fit into --kv-cache {config.kv_cache_bytes} "
            f"({config.num_blocks} blocks of {config.block_size} tokens); make one smaller or the other larger"
        )
    if config.max_num_batched_tokens < config.max_num_seqs:
        raise InputError(
            f"--max-num-batched-tokens: found {config.max_num_batched_tokens}; wanted at least --max-num-seqs "
            f"({config.max_num_seqs}), so that every running sequence can decode in each step"
        )
