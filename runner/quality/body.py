"""The bodies of a gate's requests. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..client.wire import Prompt
from ..tokens.words import Words


@dataclass(frozen=True)
class GateBody:
    """The JSON bodies of one gate. `schema`: the JSON Schema of its replies, if it has one; `words`: what chat prompts
    are made of; `token_ids`: whether the server may be asked for the ids of its output tokens.

    All are greedy (temperature 0) and not streamed. The length is fixed in greedy_divergence alone, and there only
    where the engine is known to take ignore_eos, or the card's own requests send it, too.
    """

    card: Mapping[str, Any]
    row: Mapping[str, Any]
    model: str
    words: Words
    schema: Any = None
    token_ids: bool = True

    def path(self) -> str:
        """Where the requests go, below the API base."""
        return "/chat/completions" if self._chat else "/completions"

    def whole(self, prompt: Prompt) -> bytes:
        """A request that counts."""
        asked = self._asked(prompt, self.row["output_tokens"])
        if self.row["gate"] == "greedy_divergence" and self._goes_on():
            asked |= {"ignore_eos": True, "min_tokens": self.row["output_tokens"]}
        if self.schema is not None:
            asked["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": self.schema}}
        if self.token_ids:
            asked["return_token_ids"] = True
        return json.dumps(asked, separators=(",", ":")).encode()

    def before(self, prompt: Prompt) -> bytes:
        """The same prompt for one token, which leaves it in a prefix cache."""
        return json.dumps(self._asked(prompt, 1), separators=(",", ":")).encode()

    @property
    def _chat(self) -> bool:
        return bool(self.card["workload"]["endpoint"] == "chat")

    def _goes_on(self) -> bool:
        known = self.card["system"]["engine"]["kind"] in ("simulated", "vllm")
        return known or bool(self.card["workload"]["sampling"]["ignore_eos"])

    def _asked(self, prompt: Prompt, tokens: int) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self.model}
        if self._chat:
            asked["messages"] = self._messages(prompt)
        else:
            asked["prompt"] = prompt
        return asked | {"max_tokens": tokens, "temperature": 0.0}

    def _messages(self, prompt: Prompt) -> Any:
        if isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        if isinstance(prompt[0], int):
            return [{"role": "user", "content": self.words.text(cast("list[int]", prompt))}]
        return prompt
