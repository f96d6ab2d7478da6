"""A tokenizer's files: tokenizer.json, and with chat tokenizer_config.json and chat_template.jinja beside it.

Here they are found and looked at; what is made with them is the runner's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .defaults import Filled
from .phrase import KeyPath, show
from .table import FileError

_MODEL = ("system", "model")
#: what stands beside a tokenizer.json, by the key that could also name it
_BESIDE = {"tokenizer_config": "tokenizer_config.json", "chat_template": "chat_template.jinja"}


def beside_tokenizer(filled: Filled, found: Mapping[str, Path]) -> Iterator[tuple[KeyPath, tuple[str, str]]]:
    """The keys whose files the card does not name itself, each with (name, the file that it is relative to): the
    tokenizer.json of a folder, and what lies beside a tokenizer. `found`: as in read_inputs. Such keys get a value."""
    node = filled.root.at((*_MODEL, "tokenizer"))
    name = filled.get(*_MODEL, "tokenizer")
    if node is None or not isinstance(name, str) or name == "words":
        return

    def there(other: str) -> bool:
        """Whether a file of that name can be read beside the card."""
        return other in found or Path(os.path.dirname(node.file), other).is_file()

    inside = os.path.join(name, "tokenizer.json")
    folder = inside in found or Path(os.path.dirname(node.file), name).is_dir()
    if folder:
        yield (*_MODEL, "tokenizer"), (inside, node.file)
    if filled.get("workload", "endpoint") != "chat":
        return
    for key, file in _BESIDE.items():
        other = os.path.join(name if folder else os.path.dirname(name), file)
        if filled.root.at((*_MODEL, key)) is None and there(other):
            filled.default((*_MODEL, key), other)
            yield (*_MODEL, key), (other, node.file)


def _object(data: bytes, wanted: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileError("text that is not JSON", wanted, line=getattr(error, "lineno", 1)) from None
    if not isinstance(document, dict):
        raise FileError(show(document), wanted)
    return document


def read_tokenizer(data: bytes) -> dict[str, Any]:
    """What is told of a tokenizer.json: the number of tokens that it knows. Raises FileError."""
    wanted = "a tokenizer.json of the tokenizers library"
    document = _object(data, wanted)
    model, added = document.get("model"), document.get("added_tokens") or []
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict | list) or not isinstance(added, list):
        raise FileError("a JSON object without model.vocab", wanted)
    words = vocabulary if isinstance(vocabulary, dict) else {row[0] for row in vocabulary if isinstance(row, list)}
    contents = {token["content"] for token in added if isinstance(token, dict) and "content" in token}
    return {"vocabulary": len(words) + len(contents - set(words))}


def template_of(config: Mapping[str, Any]) -> str | None:
    """The chat template that stands in a tokenizer_config.json: its only one, or the one named default."""
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def read_tokenizer_config(data: bytes) -> dict[str, Any]:
    """What is told of a tokenizer_config.json: whether it holds a chat template. Raises FileError."""
    return {"has_chat_template": template_of(_object(data, "a tokenizer_config.json, which is an object")) is not None}


def read_chat_template(data: bytes) -> dict[str, Any]:
    """Nothing is told of a chat template but that it is text. Raises FileError."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError("bytes that are not UTF-8", "a chat template as text") from None
    return {}
