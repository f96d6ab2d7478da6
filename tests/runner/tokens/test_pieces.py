"""Texts counted again, piece by piece: a token belongs to the piece that completes it."""

from __future__ import annotations

import pytest
from benchcard.runner.tokens.tokenizer import Tokenizer

from .made import byte_level

TOKENIZER = Tokenizer(byte_level().encode(), "t")


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        ([], []),
        ([""], [0]),
        (["apple", " river"], [1, 1]),
        (["ap", "ple riv", "er"], [0, 1, 1]),  # "apple", then " river"
        (["apple river", "", " queen"], [2, 0, 1]),
        (["apple apple apple"], [3]),
        (["z", "zz"], [1, 2]),  # an unknown word: letter by letter
        (["中"], [3]),  # its three UTF-8 bytes
        (["中", "文", "a"], [3, 3, 1]),
        (["apple\ud800", "z"], [2, 1]),  # half a surrogate pair is a question mark
        (["<|im_end|>"], [1]),
    ],
)
def test_pieces(pieces: list[str], tokens: list[int]) -> None:
    assert TOKENIZER.tokens_by_piece(pieces) == tokens
    assert sum(tokens) == TOKENIZER.count("".join(pieces).replace("\ud800", "?"))


def test_a_normalizer_that_drops_characters() -> None:
    """Offsets are those of the text as it came."""
    from tokenizers import Tokenizer as Library
    from tokenizers import normalizers

    library = Library.from_str(byte_level())
    library.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()])
    found = Tokenizer(library.to_str().encode(), "t").tokens_by_piece([" ", " Ap", "ple", " RIVER", " "])
    assert found == [0, 0, 1, 1, 0]
