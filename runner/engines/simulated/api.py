"""What a client may ask: bodies of generation and tokenize requests, checked. Errors are vLLM's where they apply."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .render import error_body
from .tokens import WIDTH, encode, words_to_ids

#: asked-for features that the word model does not have, and the values that ask for nothing
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "prompt_logprobs": (None,),
    "prompt_embeds": (None,),
    "stop": (None, "", []),
    "stop_token_ids": (None, []),
    "tools": (None, []),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "use_beam_search": (None, False),
    "truncate_prompt_tokens": (None,),
}

#: vLLM's default for completions
DEFAULT_MAX_TOKENS = 16


class ApiError(Exception):
    """A request that is refused: HTTP status, vLLM's error type, message, and the parameter that is wrong."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, kind, status, param)


def bad_request(message: str, param: str | None = None) -> ApiError:
    """HTTP 400 for a value that cannot be served."""
    return ApiError(400, "BadRequestError", message, param)


def invalid(message: str, param: str) -> ApiError:
    """HTTP 400 for a body that does not have the right shape."""
    return ApiError(400, "Bad Request", f"1 validation error:\n  {param}: {message}", f"body.{param}")


@dataclass(frozen=True)
class Generation:
    """A request for output that can be served."""

    chat: bool
    prompt: bytes
    max_tokens: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    token_ids: bool


def parse_json(body: bytes) -> dict[str, Any]:
    """The body as a JSON object; `ApiError` 400 otherwise."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "Bad Request", f"1 validation error:\n  JSON decode error: {error}", "body") from None
    if not isinstance(value, dict):
        raise ApiError(400, "Bad Request", "1 validation error:\n  Input should be a JSON object", "body")
    return value


def check_model(body: dict[str, Any], served: str) -> None:
    """`ApiError` 404 if the body names a model that is not served here."""
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise invalid("Input should be a valid string", "model")
    if model and model != served:
        raise ApiError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")


def parse_generation(body: bytes, chat: bool, served: str, max_model_len: int) -> Generation:
    """A completions or chat body, checked; `ApiError` says what is wrong with it."""
    fields = parse_json(body)
    check_model(fields, served)
    for name, harmless in UNSUPPORTED.items():
        if fields.get(name) not in harmless:
            raise bad_request(f"The simulated engine does not support {name}={fields[name]!r}.", name)
    prompt = _chat_prompt(fields) if chat else _prompt(fields)
    length = len(prompt) // WIDTH
    if length < 1:
        raise bad_request("The prompt is empty; at least one token is needed.", "messages" if chat else "prompt")
    if length >= max_model_len:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {length} "
            f"input tokens, which leaves no room for output. Please reduce the length of the input prompt.",
            "input_tokens",
        )
    max_tokens = _max_tokens(fields, max_model_len - length if chat else DEFAULT_MAX_TOKENS)
    if length + max_tokens > max_model_len:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, you requested "
            f"{length + max_tokens} tokens ({length} in the prompt, {max_tokens} in the completion). Please reduce the "
            f"length of the prompt or the completion.",
            "max_tokens",
        )
    stream = _boolean(fields, "stream")
    include, continuous = _stream_options(fields, stream)
    return Generation(chat, prompt, max_tokens, stream, include, continuous, _boolean(fields, "return_token_ids"))


def tokenize(body: bytes, served: str, max_model_len: int) -> dict[str, Any]:
    """The reply of `/tokenize` to a prompt or to messages."""
    fields = parse_json(body)
    check_model(fields, served)
    if "messages" in fields:
        ids = words_to_ids(_chat_text(fields))
    elif isinstance(fields.get("prompt"), str):
        ids = words_to_ids(fields["prompt"])
    else:
        raise invalid("Field required", "prompt")
    return {"count": len(ids), "max_model_len": max_model_len, "tokens": ids, "token_strs": None}


def _prompt(fields: dict[str, Any]) -> bytes:
    prompt = fields.get("prompt")
    if prompt is None or prompt == "":
        raise invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(prompt, str):
        return encode(words_to_ids(prompt))
    if not isinstance(prompt, list):
        raise invalid("Input should be a string or a list of token ids", "prompt")
    if len(prompt) == 1 and isinstance(prompt[0], (str, list)):  # a batch of one
        return _prompt({"prompt": prompt[0]})
    try:
        return encode(prompt)
    except (TypeError, OverflowError):
        raise invalid("Input should be one prompt: a string or a list of token ids", "prompt") from None


def _chat_prompt(fields: dict[str, Any]) -> bytes:
    return encode(words_to_ids(_chat_text(fields)))


def _chat_text(fields: dict[str, Any]) -> str:
    """The words of all messages, in order; the template of the word model adds none."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("Input should be a non-empty list of messages", "messages")
    texts: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid("Input should be an object with a role", f"messages.{index}")
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(parts, list):
            raise invalid("Input should be a string or a list of parts", f"messages.{index}.content")
        for part in parts:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise invalid("Input should be a text part", f"messages.{index}.content")
            texts.append(part["text"])
    return " ".join(texts)


def _max_tokens(fields: dict[str, Any], default: int) -> int:
    name = "max_completion_tokens" if fields.get("max_completion_tokens") is not None else "max_tokens"
    value = _integer(fields, name, default)
    if value < 1:
        raise bad_request(f"max_tokens must be at least 1, got {value}.", "max_tokens")
    least = _integer(fields, "min_tokens", 0)
    if least < 0:
        raise bad_request(f"min_tokens must be greater than or equal to 0, got {least}.")
    if least > value:
        raise bad_request(f"min_tokens must be less than or equal to max_tokens={value}, got {least}.")
    return value


def _integer(fields: dict[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(f"Input should be a valid integer, found {value!r}", name)
    return value


def _boolean(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(f"Input should be a valid boolean, found {value!r}", name)
    return bool(value)


def _stream_options(fields: dict[str, Any], stream: bool) -> tuple[bool, bool]:
    options = fields.get("stream_options")
    if options is None:
        return False, False
    if not stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
    if not isinstance(options, dict):
        raise invalid("Input should be a valid object", "stream_options")
    include = _boolean(options, "include_usage")
    return include, include and _boolean(options, "continuous_usage_stats")
