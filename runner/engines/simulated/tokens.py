"""Tokens of the word model: a word is a token, and a token id below 2**30 is the word `w<id>`.

So a prompt can be given as ids or as text, and what the engine writes can be sent back to it as text (the next turn of
a conversation) and is the same tokens. The output is a function of the prompt and the position alone: two arms that
get the same prompt write the same text, whatever their flags.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any
from zlib import crc32

#: bytes of one token id in an encoded prompt (unsigned, little-endian)
WIDTH = 4

#: output ids lie in [OUTPUT_FIRST, OUTPUT_FIRST + OUTPUT_COUNT): five digits each, so all chunks are equally long
OUTPUT_FIRST = 10_000
OUTPUT_COUNT = 20_000

#: turns the seed of an output into that of another one (the fault `alter`)
ALTERED = 0x5851F42D4C957F2D

_WORD_LIMIT = 2**30
_NUMBERED = re.compile(r"w(0|[1-9][0-9]{0,9})")
_MASK = 2**64 - 1


def encode(ids: Iterable[int] | Any) -> bytes:
    """Token ids (a list, or a numpy array of integers) as unsigned 32-bit numbers, little-endian.

    `TypeError` for what is not an integer, `OverflowError` for one outside [0, 2**32).
    """
    if hasattr(ids, "dtype"):  # the server has no use for numpy, so it is not imported here
        return _encode_array(ids)
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _encode_array(ids: Any) -> bytes:
    if ids.dtype.kind not in "iu":
        raise TypeError(f"token ids of type {ids.dtype}")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 2**32:
        raise OverflowError("token ids are in [0, 2**32)")
    return bytes(ids.astype("<u4").tobytes())


def decode(prompt: bytes) -> list[int]:
    """The token ids of an encoded prompt."""
    packed = array("I", prompt)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()


def words_to_ids(text: str) -> list[int]:
    """The ids of a text's words: `w123` is 123, any other word a number from 2**30 on that depends on its letters."""
    return [_word_id(word) for word in text.split()]


def _word_id(word: str) -> int:
    numbered = _NUMBERED.fullmatch(word)
    if numbered and int(numbered[1]) < _WORD_LIMIT:
        return int(numbered[1])
    return _WORD_LIMIT | (crc32(word.encode("utf-8", "surrogatepass")) & (_WORD_LIMIT - 1))


def output_seed(prompt: bytes) -> int:
    """What an output is drawn from: 64 bits of the prompt's BLAKE2b."""
    return int.from_bytes(blake2b(prompt, digest_size=8).digest(), "little")


def output_token(seed: int, index: int) -> int:
    """The id of the output token with that index (from 0): splitmix64 of seed and index, in the range of output ids."""
    mixed = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return OUTPUT_FIRST + (mixed ^ (mixed >> 31)) % OUTPUT_COUNT


def output_text(seed: int, count: int) -> str:
    """The text of the first `count` output tokens."""
    return "".join(f" w{output_token(seed, index)}" for index in range(count))
