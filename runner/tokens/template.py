"""Chat templates, rendered as transformers does, so that a planned prompt is the text that the server makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from ...schema.errors import InputError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

#: what a template that asks for today's date is told: a plan is the same on any day, and days have equal lengths
_TODAY = date(2024, 7, 26)

Messages = Sequence[Mapping[str, str]]


class ChatTemplate:
    """A chat template and the special tokens that it may write. `name` says where it is from."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], name: str) -> None:
        from jinja2 import TemplateError

        self._special = dict(special_tokens)
        self._name = name
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise InputError(f"{name}: found a chat template that cannot be read ({error}); wanted Jinja") from None

    def render(self, messages: Messages) -> str:
        """The text of a prompt with these messages, and the start of the answer. Raises InputError if the template
        refuses them."""
        try:
            return self._template.render(
                messages=[dict(message) for message in messages], add_generation_prompt=True, **self._special
            )
        except Exception as error:  # whatever a template's own expressions raise
            raise InputError(f"{self._name}: the chat template refuses the planned messages ({error})") from None


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token and the like of a tokenizer_config.json: each a text, or an object with its content."""
    found = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            found[key] = text
    return found


def _environment() -> ImmutableSandboxedEnvironment:
    """As transformers.utils.chat_template_utils makes it."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks the assistant's words for training; here it is its body."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> nodes.Node | list[nodes.Node]:
            """The block's body in place of the block."""
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return body

    def raise_exception(message: str) -> None:
        """What a template calls to refuse its messages."""
        raise TemplateError(message)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        """JSON as transformers writes it: no escape of non-ASCII letters or HTML."""
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = _TODAY.strftime
    return environment
