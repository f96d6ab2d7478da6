"""Makes the synthetic traces in cards/traces/ again, byte for byte: `python tests/traces_made_by.py [FOLDER]`.

Nothing in them was recorded anywhere. Of `random` only random() is used, whose stream for a seed Python keeps.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "cards" / "traces"
BLOCK = 16
SYSTEM_BLOCKS = 2


def exponential(draw: random.Random, mean: float) -> float:
    return -mean * math.log(1 - draw.random())


def normal(draw: random.Random) -> float:
    """Box and Muller's transform: one standard normal number of two uniform ones."""
    return math.sqrt(-2 * math.log(1 - draw.random())) * math.cos(2 * math.pi * draw.random())


def log_normal(draw: random.Random, median: float, sigma: float, least: int, most: int, z: float | None = None) -> int:
    return min(most, max(least, round(median * math.exp(sigma * (normal(draw) if z is None else z)))))


def mooncake() -> str:
    """Chats: every prompt begins with the same 32 tokens, and each later turn with all that was said before. Blocks of
    16 tokens; a prompt's last, partial block has an id that never comes again. Times are rounded to 50 ms."""
    draw = random.Random("mooncake-like")
    rows: list[tuple[int, int, int, list[int]]] = []
    fresh = SYSTEM_BLOCKS
    start = 0.0
    while start < 110_000:
        start += exponential(draw, 1_000)
        at, said, blocks = start, SYSTEM_BLOCKS * BLOCK, list(range(SYSTEM_BLOCKS))
        for _ in range(1 + int(draw.random() * 5)):
            prompt, answer = said + log_normal(draw, 22, 0.5, 6, 70), log_normal(draw, 24, 0.5, 8, 60)
            if at > 120_000 or prompt > 380:
                break
            while len(blocks) < prompt // BLOCK:
                blocks.append(fresh)
                fresh += 1
            partial = [fresh] if prompt % BLOCK else []
            fresh += len(partial)
            rows.append((int(at / 50) * 50, prompt, answer, [*blocks, *partial]))
            said = prompt + answer
            at += answer * 30 + exponential(draw, 5_000)
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in sorted(rows, key=lambda row: row[0]))


def azure() -> str:
    """Poisson arrivals at 2.5 req/s across midnight, in units of 100 ns as .NET writes them."""
    draw = random.Random("azure-like")
    lines, at = ["TIMESTAMP,ContextTokens,GeneratedTokens"], 0.0
    for _ in range(300):
        whole = datetime(2026, 1, 31, 23, 59, 0) + timedelta(seconds=int(at))
        ticks = int(at % 1 * 10**7)
        tokens = log_normal(draw, 90, 0.7, 20, 400), log_normal(draw, 24, 0.6, 8, 80)
        lines.append(f"{whole:%Y-%m-%d %H:%M:%S}.{ticks:07},{tokens[0]},{tokens[1]}")
        at += exponential(draw, 0.4)
    return "\n".join(lines) + "\n"


def burstgpt() -> str:
    """Gaps of a Gamma-like unevenness (a mixture of short and long ones), mean 0.28 s; one request in twenty failed."""
    draw = random.Random("burstgpt-like")
    lines, at = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"], 5.0
    for _ in range(380):
        prompt, answer = log_normal(draw, 70, 0.8, 20, 400), log_normal(draw, 26, 0.6, 8, 80)
        answer = 0 if draw.random() < 0.05 else answer
        lines.append(f"{at:.2f},{'GPT-4' if draw.random() < 0.2 else 'ChatGPT'},{prompt},{answer},{prompt + answer},"
                     f"{'API log' if draw.random() < 0.5 else 'Conversation log'}")  # fmt: skip
        at += exponential(draw, 0.1 if draw.random() < 0.8 else 1.0)
    return "\n".join(lines) + "\n"


def pairs() -> str:
    """Log-normal lengths whose logarithms correlate with 0.7."""
    draw = random.Random("pairs")
    lines = ["input_tokens,output_tokens"]
    for _ in range(200):
        one, other = normal(draw), normal(draw)
        both = 0.7 * one + math.sqrt(1 - 0.49) * other
        lines.append(f"{log_normal(draw, 90, 0.6, 20, 400, one)},{log_normal(draw, 24, 0.6, 8, 80, both)}")
    return "\n".join(lines) + "\n"


SUBJECTS = (
    "a lighthouse on a foggy coast", "sourdough bread", "the water cycle", "a chess opening for beginners",
    "how bicycles stay upright", "a small vegetable garden", "public libraries", "the phases of the Moon",
    "a letter that arrived a century late", "noise in open-plan offices", "learning to swim as an adult",
    "why leaves change colour",
)  # fmt: skip
TASKS = (
    ("Explain {} to a ten-year-old in three sentences.", 48),
    ("Write a short poem about {}.", 64),
    ("List four facts about {} that most people get wrong.", 72),
    ("What would a careful sceptic ask about {}? Give two questions.", 32),
    ("Summarise what matters most about {} in one line.", 16),
)


def prompts() -> str:
    rows = [{"prompt": task.format(subject), "output_tokens": tokens} for subject in SUBJECTS for task, tokens in TASKS]
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES: dict[str, Callable[[], str]] = {
    "mooncake-like.jsonl": mooncake, "azure-like.csv": azure, "burstgpt-like.csv": burstgpt, "pairs.csv": pairs,
    "prompts.jsonl": prompts,
}  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, make in FILES.items():
        (folder / name).write_text(make(), encoding="utf-8", newline="\n")
