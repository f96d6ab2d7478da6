"""The model that is served: found as the server finds it, and every file of it named by its digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from benchcard.runner.identity.digests import Digests
from benchcard.runner.identity.model import Served, model_fields, options_of, with_file


def sha(content: str) -> str:
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, its files' contents as their names."""
    where = tmp_path / "model"
    where.mkdir()
    for name in ("model-1.safetensors", "model-2.safetensors", "pytorch_model.bin", "tokenizer.json", "config.json"):
        (where / name).write_text(name)
    (where / "generation_config.json").write_text("{}")
    (where / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return where


def fields(tmp_path: Path, model: str | None, **options: str) -> dict[str, Any]:
    served = Served(model, {name.replace("_", "-"): value for name, value in options.items()}, {"HOME": str(tmp_path)})
    return model_fields(served, Digests(tmp_path / "digests.json"))


def test_each_file_has_its_digest(folder: Path, tmp_path: Path) -> None:
    found = {name: field["value"] for name, field in fields(tmp_path, str(folder)).items()}
    assert found == {
        "model.path": str(folder),
        "model.weights_sha256": {name: sha(name) for name in ("model-1.safetensors", "model-2.safetensors")},
        "model.tokenizer_files": {
            "tokenizer.json": sha("tokenizer.json"),
            "tokenizer_config.json": sha('{"chat_template": "{{ messages }}"}'),
        },
        "model.chat_template_sha256": sha("{{ messages }}"),
        "model.generation_config_sha256": sha("{}"),
        "model.config_sha256": sha("config.json"),
    }


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("model-2.safetensors", "model.weights_sha256"),
        ("tokenizer.json", "model.tokenizer_files"),
        ("generation_config.json", "model.generation_config_sha256"),
        ("config.json", "model.config_sha256"),
    ],
)
def test_one_byte_changed_is_named(folder: Path, tmp_path: Path, file: str, field: str) -> None:
    before = fields(tmp_path, str(folder))
    content = bytearray((folder / file).read_bytes())
    content[-1] ^= 1
    (folder / file).write_bytes(content)
    after = fields(tmp_path, str(folder))
    assert [name for name in before if before[name] != after[name]] == [field]


def test_the_chat_template_from_wherever_the_server_takes_it(folder: Path, tmp_path: Path) -> None:
    def template(**options: str) -> Any:
        return fields(tmp_path, str(folder), **options)["model.chat_template_sha256"]

    # Several templates: the canonical JSON of the list (RFC 8785), by hand.
    (folder / "tokenizer_config.json").write_text('{"chat_template": [{"template": "x", "name": "default"}]}')
    assert template()["value"] == sha('[{"name":"default","template":"x"}]')
    (folder / "tokenizer_config.json").write_text("{}")
    assert template() == {"value": None, "source": "unknown", "why": "the model has no chat template"}
    (folder / "chat_template.jinja").write_text("own file")
    assert template()["value"] == sha("own file")
    (tmp_path / "given.jinja").write_text("given")
    assert template(chat_template=str(tmp_path / "given.jinja"))["value"] == sha("given")
    assert template(chat_template="{{ inline }}")["value"] == sha("{{ inline }}")


def test_another_folder_for_the_tokenizer_and_for_generation(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").write_text("other")
    (other / "generation_config.json").write_text("[]")
    found = fields(tmp_path, str(folder), tokenizer=str(other), generation_config=str(other))
    assert found["model.tokenizer_files"]["value"] == {"tokenizer.json": sha("other")}
    assert found["model.generation_config_sha256"]["value"] == sha("[]")
    found = fields(tmp_path, str(folder), generation_config="vllm")
    assert found["model.generation_config_sha256"]["value"] == "none: --generation-config vllm"


def test_a_name_on_the_hub_in_the_servers_cache(tmp_path: Path) -> None:
    repository = tmp_path / ".cache/huggingface/hub/models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123")
    (repository / "snapshots" / "abc123").mkdir(parents=True)
    (repository / "blob").write_text("w")
    (repository / "snapshots" / "abc123" / "model.safetensors").symlink_to(repository / "blob")
    found = fields(tmp_path, "org/name")
    assert found["model.path"]["value"] == "org/name@abc123"
    assert found["model.weights_sha256"]["value"] == {"model.safetensors": sha("w")}
    assert fields(tmp_path, "org/name", revision="gone")["model.weights_sha256"]["why"] == (
        "org/name: no such folder on this host, nor in its Hugging Face cache"
    )


def test_the_folder_into_which_the_server_downloads(tmp_path: Path) -> None:
    """Not the copy of another revision that lies in the usual cache; and the tokenizer's own revision."""
    for cache, content in ((".cache/huggingface/hub", "stale"), ("data", "w")):
        for commit in ("main", "v2"):
            folder = tmp_path / cache / "models--org--name" / "snapshots" / commit
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_text(content)
            (folder / "tokenizer.json").write_text(content + commit)
    found = fields(
        tmp_path, "org/name", download_dir=str(tmp_path / "data"), tokenizer="org/name", tokenizer_revision="v2"
    )
    assert found["model.weights_sha256"]["value"] == {"model.safetensors": sha("w")}
    assert found["model.tokenizer_files"]["value"] == {"tokenizer.json": sha("wv2")}


def test_a_tokenizer_that_is_not_to_be_found_is_not_the_models(folder: Path, tmp_path: Path) -> None:
    found = fields(tmp_path, str(folder), tokenizer="org/elsewhere")
    why = "org/elsewhere: no such folder on this host, nor in its Hugging Face cache"
    for name in ("model.tokenizer_files", "model.chat_template_sha256"):
        assert found[name] == {"value": None, "source": "unknown", "why": why}
    found = fields(tmp_path, str(folder), tokenizer="org/elsewhere", chat_template="{{ inline }}")
    assert found["model.chat_template_sha256"]["value"] == sha("{{ inline }}")


def test_what_a_file_of_settings_says_is_served(folder: Path, tmp_path: Path) -> None:
    file, given = tmp_path / "engine.yaml", tmp_path / "given.jinja"
    given.write_text("given")
    file.write_text(f"model: {folder}\nchat_template: {given}\nspeculative-config: {{model: m}}\nmax-num-seqs: 16\n")
    served = with_file(None, {"config": str(file)}, Path)
    assert (served.model, served.options["speculative-config"]) == (str(folder), '{"model": "m"}')
    found = model_fields(served, Digests(tmp_path / "digests.json"))
    assert found["model.chat_template_sha256"]["value"] == sha("given")
    served = with_file("other", {"config": str(file), "chat-template": "x"}, Path)
    assert (served.model, served.options["chat-template"]) == ("other", "x")
    assert with_file("m", {"config": str(tmp_path / "none.yaml")}, Path).options == {
        "config": str(tmp_path / "none.yaml")
    }


def test_adapters_are_part_of_what_is_served(folder: Path, tmp_path: Path) -> None:
    lora = tmp_path / "lora"
    lora.mkdir()
    (lora / "adapter_model.safetensors").write_text("l")
    (lora / "adapter_config.json").write_text("{}")
    digests = {"adapter_model.safetensors": sha("l"), "adapter_config.json": sha("{}")}
    as_json = json.dumps({"name": "b", "path": str(lora)})
    _, options = options_of(["vllm", "serve", "m", "--lora-modules", f"a={lora}", as_json, "--port", "1"])
    found = fields(tmp_path, str(folder), lora_modules=options["lora-modules"])
    assert found["model.adapters"] == {"value": {"a": digests, "b": digests}, "source": "observed"}
    gone = fields(tmp_path, str(folder), lora_modules="a=/no/such/folder")["model.adapters"]
    assert gone["source"] == "unknown"


def test_the_format_and_the_configuration_that_the_command_asks_for(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("other")
    found = fields(tmp_path, str(folder), load_format="pt", hf_config_path=str(other))
    assert found["model.weights_sha256"]["value"] == {"pytorch_model.bin": sha("pytorch_model.bin")}
    assert found["model.config_sha256"]["value"] == sha("other")
    assert fields(tmp_path, str(folder), hf_config_path="/no/such")["model.config_sha256"]["source"] == "unknown"


def test_weights_that_changed_after_a_server_was_started_are_not_what_it_loaded(folder: Path, tmp_path: Path) -> None:
    at = (folder / "model-2.safetensors").stat().st_ctime

    def weights(since: float) -> Any:
        return model_fields(Served(str(folder), since=since), Digests(tmp_path / "d.json"))["model.weights_sha256"]

    assert weights(at + 60)["source"] == "observed"
    assert weights(at - 60) == {
        "value": None,
        "source": "unknown",
        "why": "model-1.safetensors, model-2.safetensors changed after the server was started: what it loaded can no "
        "longer be read",
    }


def test_a_draft_model_and_a_single_file(folder: Path, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / "model.safetensors").write_text("d")
    found = fields(tmp_path, str(folder), speculative_config=json.dumps({"model": str(draft)}))
    assert found["model.draft_weights_sha256"]["value"] == {"model.safetensors": sha("d")}
    (tmp_path / "m.gguf").write_text("g")
    assert fields(tmp_path, str(tmp_path / "m.gguf"))["model.weights_sha256"]["value"] == {"m.gguf": sha("g")}


def test_nothing_that_is_served_is_known(tmp_path: Path) -> None:
    found = fields(tmp_path, None)
    assert {field["why"] for field in found.values()} == {"neither the server's command nor the card names a folder"}
    (tmp_path / "empty").mkdir()
    found = fields(tmp_path, str(tmp_path / "empty"))
    assert [name for name, field in found.items() if field["source"] == "observed"] == ["model.path"]


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        ("python -m vllm.entrypoints.openai.api_server --model a --port 1 --model b", "b"),
        ("python -m vllm.entrypoints.openai.api_server --model=a", "a"),
        ("python /venv/bin/vllm serve org/name --port 1", "org/name"),
        ("python /venv/bin/vllm serve --model c", "c"),
        ("python -m sglang.launch_server --model-path d", "d"),
        ("python -m benchcard.runner.engines.simulated --port 1", None),
    ],
)
def test_the_model_that_a_command_names(argv: str, model: str | None) -> None:
    assert options_of(argv.split())[0] == model


def test_options_with_a_value() -> None:
    assert options_of(["x", "--chat_template", "a", "--enforce-eager", "--tokenizer=t"])[1] == {
        "chat-template": "a", "tokenizer": "t",
    }  # fmt: skip
