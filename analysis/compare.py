"""Two days of one card side by side.

The same card with a fresh seed. For each claimed load: Welch's interval (90% for a card at 95%) of mean d₂ − mean d₁
against ±m. Inside: reproduced. Wholly outside, or two decisive verdicts that contradict: conflict. Else indeterminate.
Days are never pooled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from . import wording
from .effect import t_quantile
from .records import BundleError, Record, need

#: 1: first.
REPRODUCTION_VERSION = 1
#: runs that began within this many seconds of each other saw the same day
SAME_DAY = 12 * 3600.0
_DECISIVE = {"supported", "falsified"}


@dataclass(frozen=True)
class Difference:
    """Day 2 less day 1 at one load, on the d scale. `p` is that of "the days differ by less than the margin" (TOST)."""

    difference: float
    df: float | None
    lower: float
    upper: float
    p: float | None
    word: str


def welch(day1: Sequence[float], day2: Sequence[float], margin: float, confidence: float = 0.95) -> Difference:
    """Welch's interval at 1 − 2·(1 − confidence), and its word against ±margin."""
    from scipy import special

    x, y = np.asarray(day1, dtype=np.float64), np.asarray(day2, dtype=np.float64)
    difference = float(y.mean() - x.mean())
    v1, v2 = float(x.var(ddof=1)) / len(x), float(y.var(ddof=1)) / len(y)
    error = math.sqrt(v1 + v2)
    if error <= 1e-12 * max(abs(float(x.mean())), abs(float(y.mean())), margin):
        df, lower, upper, p = None, difference, difference, None
    else:
        df = (v1 + v2) ** 2 / (v1**2 / (len(x) - 1) + v2**2 / (len(y) - 1))
        half = t_quantile(confidence, df) * error
        lower, upper = difference - half, difference + half
        p = max(float(special.stdtr(df, (s * difference - margin) / error)) for s in (1.0, -1.0))
    word = "indeterminate"
    if -margin < lower and upper < margin:
        word = "reproduced"
    elif lower > margin or upper < -margin:
        word = "conflict"
    return Difference(difference, df, lower, upper, p, word)


def read_verdict(run: Path) -> Record:
    """A run's verdict.json, checked to be one."""
    path = run / "verdict.json"
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise BundleError(f"{path}: missing or not JSON; wanted the verdict of an ab run") from None
    if not isinstance(document, dict) or document.get("verdict_version") != 1:
        raise BundleError(f"{path}: wanted a verdict of version 1")
    for key, kind in (("run", str), ("card.digest", str), ("claim.metric", str), ("effects", list), ("verdict", str)):
        need(document, key, kind, str(path))
    return document


def compare(first: Path, second: Path) -> Record:
    """reproduction.json of two runs of one card."""
    days = [read_verdict(first), read_verdict(second)]
    if days[0]["card"]["digest"] != days[1]["card"]["digest"]:
        found = " and ".join(str(day["card"]["digest"]) for day in days)
        raise BundleError(f"{second}: the two runs are of different cards ({found}); wanted two days of one card")
    if days[0]["run"] == days[1]["run"]:
        raise BundleError(f"{second}: the same run twice; wanted two days")
    agreement, confidence = _margin(first)
    loads = [_load(a, b, agreement, confidence) for a, b in zip(*(_claimed(day) for day in days), strict=True)]
    word, because = _word(days, loads)
    started = [_started(run) for run in (first, second)]
    because += _apart(started)
    return {
        "reproduction_version": REPRODUCTION_VERSION,
        "card": days[0]["card"],
        "day1": {**_day(days[0]), "started": started[0]},
        "day2": {**_day(days[1]), "started": started[1]},
        "agreement": agreement,
        "level": 1 - 2 * (1 - confidence),
        "loads": loads,
        "word": word,
        "because": because,
    }


def _margin(run: Path) -> tuple[float, float]:
    path = run / "card.resolved.json"
    try:
        card = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise BundleError(f"{path}: missing or not JSON") from None
    agreement = need(card, "second_day.agreement", (int, float), str(path))
    return float(agreement), float(need(card, "analysis.confidence", (int, float), str(path)))


def _started(run: Path) -> str | None:
    """When a run began, by the first line of its attempt log (UTC, ISO); None where that does not say."""
    try:
        with (run / "attempts.jsonl").open("rb") as log:
            time = json.loads(log.readline())["time"]
        return str(time) if datetime.fromisoformat(time).tzinfo else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _apart(started: Sequence[str | None]) -> list[Record]:
    """The time between the two runs: so close that it is no second day, or how long it was."""
    times = [datetime.fromisoformat(time) for time in started if time is not None]
    if len(times) < 2:
        return []
    seconds = abs((times[1] - times[0]).total_seconds())
    text = f"the two runs started {wording.duration(seconds)} apart"
    if seconds < SAME_DAY:
        return [{"code": "same_day", "text": f"{text}: this repeats the run, it does not sample another day"}]
    return [{"code": "time_apart", "text": text}]


def _claimed(day: Record) -> list[Record]:
    return [effect for effect in day["effects"] if effect["claimed"]]


def _day(day: Record) -> Record:
    first = _claimed(day)[0]
    keys = {key: day[key] for key in ("run", "seed", "verdict")}
    kept = ("load", "mean", "stdev", "interval", "blocks", "d", "word")
    effects = [{key: effect[key] for key in kept} for effect in _claimed(day)]
    return {**keys, "mean": first["mean"], "blocks": first["blocks"], "interval": first["interval"], "effects": effects}


def _load(one: Record, two: Record, agreement: float, confidence: float) -> Record:
    row: Record = {"load_point": one["load_point"], "load": one["load"], "metric": one["metric"], "scale": one["scale"]}
    undefined = [side for side in (one, two) if side["mean"] is None or side["blocks"] < 2]
    row |= dict.fromkeys(("difference", "df", "interval", "margin", "p"))
    if undefined or one["scale"] != two["scale"] or one["scale"] == "scaled":
        reason = "a day has no effect with a spread" if undefined else "the days' effects are not on one ratio scale"
        return row | {"word": "indeterminate", "reason": reason}
    margin = math.log1p(agreement) if one["scale"] == "log" else agreement
    found = welch(one["d"], two["d"], margin, confidence)
    return row | {
        "difference": found.difference,
        "df": found.df,
        "interval": [found.lower, found.upper],
        "margin": margin,
        "p": found.p,
        "word": found.word,
        "reason": None,
    }


def _word(days: Sequence[Record], loads: Sequence[Record]) -> tuple[str, list[Record]]:
    words = {str(day["verdict"]) for day in days}
    because: list[Record] = []
    word = "indeterminate"
    if words == _DECISIVE:
        text = f"the verdicts contradict: {days[0]['verdict']} on day 1, {days[1]['verdict']} on day 2"
        word, because = "conflict", [{"code": "verdicts_contradict", "text": text}]
    elif "invalid" in words:
        because = [{"code": "invalid_day", "text": "a day whose run is invalid says nothing about the other"}]
    elif days[0]["seed"] == days[1]["seed"]:
        because = [{"code": "same_seed", "text": "both runs have the same seed: a second day needs fresh requests"}]
    elif any(row["word"] == "conflict" for row in loads):
        word = "conflict"
    elif all(row["word"] == "reproduced" for row in loads):
        word = "reproduced"
    texts = {
        "reproduced": "the interval of the difference lies within the margin",
        "conflict": "the interval of the difference lies wholly outside the margin",
        "indeterminate": "the interval of the difference reaches across the margin",
    }
    for row in loads:
        text = f"load {row['load']:g}: {row['reason'] or texts[row['word']]}"
        if row["difference"] is not None:
            shown = wording.signed(wording.on_scale(row["difference"], row["scale"], row["metric"]))
            text += f" (day 2 less day 1: {shown})"
        because.append({"code": f"load_{row['word']}", "text": text})
    return word, because
