"""Chat templates, as transformers renders them."""

from __future__ import annotations

import pytest
from benchcard.runner.tokens.template import ChatTemplate, special_tokens
from benchcard.schema.errors import InputError

HELLO = [{"role": "user", "content": "hello"}]


def rendered(source: str, **special: str) -> str:
    return ChatTemplate(source, special, "t.jinja").render(HELLO)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # trim_blocks and lstrip_blocks: a block alone on its line leaves nothing of the line
        ("{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}\n", "hello\n"),
        ("{{ bos_token }}[INST] {{ messages[0]['content'] }} [/INST]", "<s>[INST] hello [/INST]"),
        ("{% if add_generation_prompt %}A:{% endif %}", "A:"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hello"}]'),
        ("{{ {'a': '<é>'} | tojson(indent=1) }}", '{\n "a": "<é>"\n}'),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "hello"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}", "26 Jul 2024"),
        ("{{ tools is defined }}", "False"),
    ],
)
def test_rendering(source: str, text: str) -> None:
    assert rendered(source, bos_token="<s>") == text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('only system messages') }}", "refuses the planned messages (only system messages)"),
        ("{% for %}", "found a chat template that cannot be read"),
        ("{{ messages.append(1) }}", "refuses the planned messages"),
        ("{{ ''.__class__.__mro__ }}", "refuses the planned messages"),
        ("{{ nothing.at.all }}", "refuses the planned messages"),
    ],
)
def test_what_is_refused(source: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        rendered(source)
    assert str(caught.value).startswith("t.jinja: ")
    assert said in str(caught.value)


def test_special_tokens() -> None:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": None, "model": "x"}
    assert special_tokens(config) == {"bos_token": "<s>", "eos_token": "</s>"}
