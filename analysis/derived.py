"""What an engine makes of a flag: its own name in the resolved configuration, and what follows from it.

Read off vLLM 0.32 (`vllm/config/vllm.py`, `vllm/config/scheduler.py`, `vllm/engine/arg_utils.py`) and off what
`/server_info` says of servers that differ in one flag. The table is short on purpose: what is missing in it is named on
the card under `identity.treatment`; what is too much in it would hide a second change.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

#: fields that hold what an engine was started with or resolved
ENGINE = ("engine.flags", "engine.config", "engine.cache_config", "process.argv")
_ENVIRONMENT = ("process.env", "engine.env", "engine.config")

#: a flag -> its own name in the resolved configuration, where that is another
ALIASES = {
    "attention_backend": "attention_config.backend",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "kv_cache": "cache_config.kv_cache_memory_bytes",
    "mamba_backend": "mamba_config.backend",
    "scheduling_policy": "scheduler_config.policy",
    "spec_method": "speculative_config.method",
    "spec_model": "speculative_config.model",
    "spec_tokens": "speculative_config.num_speculative_tokens",
    "enable_lora": "lora_config",
    "cpu_offload_gb": "offload_config.uva.cpu_offload_gb",
}

#: what is left for the KV cache, as the engine finds it by measuring when it starts
MEASURED = (
    "cache_config.num_gpu_blocks", "cache_config.num_cpu_blocks", "cache_config.kv_cache_size_tokens",
    "cache_config.kv_cache_max_concurrency",
)  # fmt: skip
_SIZED = (
    "scheduler_config.max_num_scheduled_tokens", "scheduler_config.max_num_encoder_input_tokens",
    "scheduler_config.encoder_cache_size", "compilation_config.compile_ranges_endpoints",
    "compilation_config.compile_sizes",
)  # fmt: skip
_GRAPHS = (
    "compilation_config.cudagraph_capture_sizes", "compilation_config.max_cudagraph_capture_size",
    "compilation_config.decoder_replay_cudagraph_capture_sizes",
)  # fmt: skip
_BATCH = ("scheduler_config.max_num_batched_tokens", *_SIZED, *_GRAPHS)
_COMPILED = ("compilation_config.*", "kernel_config.ir_op_priority.*")
_BLOCKS = (
    "cache_config.block_size", "cache_config._block_size_resolved", "cache_config.user_specified_block_size",
    "cache_config.effective_attention_block_size", "cache_config.hash_block_size",
    "cache_config.cache_hit_alignment_tokens",
)  # fmt: skip
_PASSES = ("compilation_config.pass_config.*", "compilation_config.custom_ops", "compilation_config.splitting_ops")
_WORLD = (
    "parallel_config.world_size", "parallel_config.*rank*", "parallel_config.distributed_executor_backend",
    "parallel_config.disable_custom_all_reduce", "scheduler_config.async_scheduling", *_PASSES, *MEASURED,
)  # fmt: skip

#: a flag or variable -> what the engine derives from it, as ends of names (`*` stands for anything)
DERIVED: dict[str, tuple[str, ...]] = {
    "max_num_batched_tokens": (*_SIZED, *_GRAPHS, *MEASURED),
    "max_num_seqs": (*_GRAPHS, *MEASURED),
    "max_model_len": (
        *_BATCH, "scheduler_config.long_prefill_token_threshold", "model_config.spec_target_max_model_len",
        "model.context_limit", *MEASURED,
    ),
    "enable_chunked_prefill": (
        *_BATCH, "scheduler_config.disable_chunked_mm_input", "scheduler_config.long_prefill_token_threshold",
        *MEASURED,
    ),
    "enable_prefix_caching": ("cache_config.mamba_cache_mode", "cache_config.cache_hit_alignment_tokens"),
    "enforce_eager": (*_COMPILED, *MEASURED),
    "compilation_config": (*_COMPILED, *MEASURED),
    "optimization_level": (*_COMPILED, *MEASURED),
    "performance_mode": (*_COMPILED, *_BATCH, "scheduler_config.max_num_seqs", *MEASURED),
    "cudagraph_capture_sizes": (*_GRAPHS, *MEASURED),
    "max_cudagraph_capture_size": (*_GRAPHS, *MEASURED),
    "speculative_config": (
        *_SIZED, *_GRAPHS, "scheduler_config.async_scheduling", "compilation_config.cudagraph_mode", *MEASURED,
    ),
    "quantization": ("model_config.quantization*", "quant_config", "quant_config.*", *_PASSES, *MEASURED),
    "kv_cache_dtype": ("cache_config.kv_cache_layout", *_BLOCKS, *_PASSES, *MEASURED),
    "dtype": ("model.precision", "cache_config.mamba*_dtype", *_PASSES, *MEASURED),
    "block_size": (*_BLOCKS, *MEASURED),
    "kv_cache_memory_bytes": MEASURED,
    "gpu_memory_utilization": MEASURED,
    "num_gpu_blocks_override": MEASURED,
    "kv_cache": MEASURED,
    "cpu_offload_gb": MEASURED,
    "kv_offloading_size": ("kv_transfer_config", "kv_transfer_config.*", *MEASURED),
    "kv_transfer_config": ("scheduler_config.disable_hybrid_kv_cache_manager", "scheduler_config.async_scheduling"),
    "attention_backend": (*_BLOCKS, *_PASSES, "compilation_config.cudagraph_mode", *MEASURED),
    "enable_lora": (*_PASSES, *MEASURED),
    "tensor_parallel_size": _WORLD,
    "pipeline_parallel_size": _WORLD,
    "data_parallel_size": ("parallel_config.data_parallel_*", *_WORLD),
    "decode_context_parallel_size": ("cache_config.cache_hit_alignment_tokens", *_WORLD),
    "VLLM_CPU_KVCACHE_SPACE": ("cache_config.kv_cache_memory_bytes", *MEASURED),
    "VLLM_ATTENTION_BACKEND": ("attention_config.backend", *_BLOCKS, *_PASSES, *MEASURED),
}  # fmt: skip
#: what the engine makes of its whole configuration, and so of every flag: digests, and the folders named after them
OF_ALL = (
    "engine.system_fingerprint",
    "simulated.system_fingerprint",
    "compilation_config.cache_dir",
    "compilation_config.local_cache_dir",
)

_SET_BY = {setting: flag for flag, setting in ALIASES.items()}


def normal(name: str) -> str:
    """A flag's name as a configuration spells it."""
    return name.replace("-", "_")


def below(name: str, fields: Iterable[str]) -> bool:
    """Whether a leaf belongs to one of the fields."""
    return any(name == field or name.startswith(f"{field}.") for field in fields)


def ends_with(name: str, end: str) -> bool:
    """Whether a leaf's name is `end` or ends with it, at a dot; `*` stands for anything, dots too."""
    return fnmatchcase(name, end) or fnmatchcase(name, f"*.{end}")


def is_own(name: str, flag: str) -> bool:
    """Whether a leaf is the flag or the variable itself: as it was given, or as the engine resolved it."""
    inner = f".{'.'.join(name.split('.')[2:])}."
    if below(name, ENGINE) and f".{normal(flag)}." in normal(inner):
        return True
    if below(name, _ENVIRONMENT) and f".{flag}." in inner:
        return True
    alias = ALIASES.get(normal(flag))
    return alias is not None and below(name, ENGINE) and f".{alias}." in inner


def set_by(setting: str) -> str | None:
    """The flag that sets a setting of the resolved configuration, where this table knows it (cache_config.cache_dtype:
    kv_cache_dtype)."""
    flag = _SET_BY.get(setting, setting.rsplit(".", 1)[-1])
    return flag if flag in ALIASES or flag in DERIVED else None


def is_derived(name: str, flag: str) -> bool:
    """Whether the engine derives a leaf from the flag or the variable."""
    ends = DERIVED.get(flag) or DERIVED.get(normal(flag)) or ()
    return any(ends_with(name, end) for end in ends)


def named(name: str, pattern: str) -> bool:
    """Whether a name on a card means a leaf: the leaf itself, what stands above it, a glob, or a flag or variable by
    its bare name (with all that the engine derives from it)."""
    if name == pattern or name.startswith(f"{pattern}."):
        return True
    if any(mark in pattern for mark in "*?["):
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return "." not in pattern and (is_own(name, pattern) or is_derived(name, pattern))
