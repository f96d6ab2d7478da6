"""Small tokenizers, made with the tokenizers library, and cards that name them."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder

#: nine and nine lowercase words, which a byte-level BPE learns whole, at the start of a line and after a space
WORDS = (
    "apple", "bread", "cloud", "dream", "earth", "flame", "grass", "house", "inner",
    "joker", "knife", "lemon", "mango", "night", "ocean", "piano", "queen", "river",
)  # fmt: skip
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
#: with byte-level BPE: <|im_start|> + "user" + \n … <|im_end|> + \n, as in ChatML
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_level() -> str:
    """tokenizer.json of a byte-level BPE that knows each word of WORDS, user and assistant, alone and after a space."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = ByteLevelDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=5000,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [f"{word} {word}" for word in (*WORDS, "user", "assistant", "system") for _ in range(3)]
    library.train_from_iterator(text, trainer)
    return str(library.to_str())


def word_level(words: tuple[str, ...] = WORDS, *, size: int = 0) -> str:
    """tokenizer.json that cuts at spaces and special tokens: a word is a token, an unknown one is <unk>. `size`: so
    many tokens without the special ones, made-up ones included."""
    vocabulary = {word: index for index, word in enumerate(("<unk>", *words))}
    for index in range(len(vocabulary), size):
        vocabulary[f"T{index}"] = index
    library = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(SPECIAL)
    return str(library.to_str())


CARD = """\
card: 1
kind: baseline
id: tokens
decision: {{question: "?", owner: tests, budget: 30 min}}
system: {{engine: {{kind: openai}}, model: {{name: m, tokenizer: model}}}}
arms: {{baseline: {{server: {{url: "http://127.0.0.1:9/v1"}}}}}}
workload:
  arrivals: constant
  loads: [10 req/s]
  endpoint: {endpoint}
  window: {{warmup: 0 requests, measure: 20 requests, drain: 1 s}}
  client: {{timeout_total: 1 s, token_counts: {token_counts}}}
  requests: {requests}
"""


def card_in(
    folder: Path,
    tokenizer: str,
    *,
    template: str | None = CHATML,
    config: dict[str, object] | None = None,
    endpoint: str = "chat",
    token_counts: str = "chunk",
    requests: str = "{lengths: {input: 40, output: 8}}",
) -> Path:
    """A card of an external server, with its tokenizer in a folder beside it."""
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    if template is not None:
        (folder / "model" / "chat_template.jinja").write_text(template, encoding="utf-8")
    if config is not None:
        (folder / "model" / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    text = CARD.format(endpoint=endpoint, token_counts=token_counts, requests=requests)
    (folder / "card.yaml").write_text(text, encoding="utf-8")
    return folder / "card.yaml"
