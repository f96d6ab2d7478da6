"""Built-in sets of items with exact answers: small arithmetic in words, and values to be found in a short text. Pure.

A set is made from the plan's seed, so a second day asks other items of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable

from ..plan.draws import Stream

#: a question and its answer
Made = tuple[str, str]

_NAMES = (
    "Nadia", "Tomas", "Ingrid", "Pavel", "Amara", "Lucia", "Henrik", "Yusuf", "Mei", "Oscar", "Priya", "Daniel",
    "Fatima", "Jonas", "Keiko", "Rosa",
)  # fmt: skip
_CITIES = (
    "Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Turin", "Bergen", "Porto", "Kyoto", "Lima", "Riga", "Dakar",
    "Graz", "Malmo", "Cairo", "Utrecht",
)  # fmt: skip
_GOODS = ("tea", "books", "tiles", "lamps", "paint", "rope", "seeds", "glass", "bolts", "paper", "wool", "clocks")
_MONTHS = ("January", "March", "April", "May", "June", "August", "October", "December")


def _arithmetic(stream: Stream, index: int) -> Made:
    """A sum, a difference, a product or a sum of three, in turn."""
    a, b, c = (int(u * 90) + 10 for u in stream.uniforms(3))
    kind = index % 4
    if kind == 0:
        return f"What is {a} plus {b}?", str(a + b)
    if kind == 1:
        return f"What is {max(a, b)} minus {min(a, b)}?", str(abs(a - b))
    if kind == 2:
        return f"What is {a} times {b % 11 + 2}?", str(a * (b % 11 + 2))
    return f"What is {a} plus {b} plus {c}?", str(a + b + c)


def _extraction(stream: Stream, index: int) -> Made:
    """A delivery note, and a question about one thing that it says."""
    u = stream.uniforms(7)
    name, city, goods, month = (_of(words, x) for words, x in zip((_NAMES, _CITIES, _GOODS, _MONTHS), u, strict=False))
    number, day, weight = 1000 + int(u[4] * 9000), 1 + int(u[5] * 28), 32 + int(u[6] * 68)
    note = (
        f"Order {number}: {weight} kg of {goods}, packed by {name} in {city}, leaves on {day} {month} and is paid for."
    )
    asked, answer = (
        ("Who packed the order?", name),
        ("In which city was the order packed?", city),
        ("What does the order consist of?", goods),
        ("How many kilograms does the order weigh?", str(weight)),
        ("What is the number of the order?", str(number)),
    )[index % 5]
    return f"{note} {asked}", answer


def _of(words: tuple[str, ...], u: float) -> str:
    return words[int(u * len(words))]


_SETS: dict[str, Callable[[Stream, int], Made]] = {"arithmetic": _arithmetic, "extraction": _extraction}
#: what a completion is shown before its question, so that a model without a chat template answers in the same form
_EXAMPLES: dict[str, tuple[Made, ...]] = {
    "arithmetic": (("What is 12 plus 7?", "19"), ("What is 20 minus 4?", "16"), ("What is 6 times 3?", "18")),
    "extraction": (
        ("Order 77: 5 kg of nails, packed by Ada in Bonn, leaves on 2 July and is paid for. Who packed the order?",
         "Ada"),
        ("Order 81: 9 kg of soap, packed by Leo in Nice, leaves on 3 July and is paid for. How many kilograms does "
         "the order weigh?", "9"),
    ),
}  # fmt: skip


def built_in(name: str, seed: int, n: int) -> list[Made]:
    """n different questions of a set, with their answers."""
    stream = Stream(seed, "quality items", name)
    found: dict[str, str] = {}
    while len(found) < n:
        question, answer = _SETS[name](stream, len(found))
        found.setdefault(question, answer)
    return list(found.items())


def as_completion(name: str, question: str) -> str:
    """A question as the text of a completion, after examples in the same form."""
    shown = "".join(f"Question: {asked}\nAnswer: {answer}\n\n" for asked, answer in _EXAMPLES[name])
    return f"{shown}Question: {question}\nAnswer:"


def as_message(question: str) -> str:
    """A question as a user's message."""
    return f"{question} Answer with nothing but that."
