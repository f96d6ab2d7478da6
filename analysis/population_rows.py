"""Populations reported apart: their metrics, their shares beside the declared ones, and what the card says of them.

A card without populations gets none of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cells import CellResult, Reading, where
from .metrics import METRICS
from .populations import declared, share
from .records import Record
from .tables import arms_and_loads, mean_and_stdev

#: what the summary by population shows
SUMMARY = (
    "goodput",
    "attainment",
    "error_rate",
    "request_throughput",
    "output_throughput",
    "ttft.p50",
    "tpot.p50",
    "e2e.p50",
)
#: a chi-square test needs as many attempts in each population as this, by the declared share
_EXPECTED = 5


def population_rows(reading: Reading) -> dict[str, list[Record]]:
    """The parts of verdict.json and inference_baseline.json that are about populations; empty without any."""
    if not declared(reading.bundle.card):
        return {}
    return {
        "populations": metric_rows(reading),
        "population_shares": share_rows(reading),
        "population_summary": summary_rows(reading),
    }


def metric_rows(reading: Reading) -> list[Record]:
    """One row a metric, population and used cell."""
    return [
        {
            **where(result.cell),
            "population": population,
            "metric": name,
            "unit": METRICS[name].unit,
            "value": value.value,
            "n": value.n,
            "undefined": value.undefined,
        }
        for result in reading.used()
        for population, part in result.parts.items()
        for name, value in part.values.items()
    ]


def _attempted(cells: Sequence[CellResult], population: str) -> int:
    return sum(cell.parts[population].judgement.attempted for cell in cells)


def share_rows(reading: Reading) -> list[Record]:
    """Each population's counted attempts and their share of all, beside the declared share, over the used blocks."""
    rows = []
    for arm, point, load in arms_and_loads(reading):
        cells = reading.used(arm, point)
        total = sum(cell.judgement.attempted for cell in cells)
        for name, population in declared(reading.bundle.card).items():
            attempted = _attempted(cells, name)
            rows.append(
                {
                    "arm": arm,
                    "load_point": point,
                    "load": load,
                    "population": name,
                    "declared": share(population),
                    "attempted": attempted,
                    "of": total,
                    "share": attempted / total if total else None,
                    "reason": None if total else "no counted attempts",
                }
            )
    return rows


def summary_rows(reading: Reading) -> list[Record]:
    """Mean ± stdev over blocks of some metrics, for each arm, load and population."""
    rows = []
    for arm, point, load in arms_and_loads(reading):
        for population in declared(reading.bundle.card):
            for name in SUMMARY:
                values = [cell.parts[population].values[name].value for cell in reading.used(arm, point)]
                mean, stdev, reason = mean_and_stdev(values)
                rows.append(
                    {
                        "arm": arm,
                        "load_point": point,
                        "load": load,
                        "population": population,
                        "metric": name,
                        "unit": METRICS[name].unit,
                        "better": METRICS[name].better,
                        "mean": mean,
                        "stdev": stdev,
                        "blocks": len(values),
                        "reason": reason,
                    }
                )
    return rows


def mix(reading: Reading) -> str | None:
    """`declared 70% chat, 30% batch; 69.2% and 30.8% of counted attempts`; None without populations."""
    populations = declared(reading.bundle.card)
    if not populations:
        return None
    by_level = any(population.get("share_by_level") is not None for population in populations.values())
    text = f"declared {mix_in_words(reading.bundle.card)}"
    counts = [_attempted(reading.used(), name) for name in populations]
    total = sum(cell.judgement.attempted for cell in reading.used())
    if not total:
        return f"{text}; no counted attempts"
    parts = [f"{count / total:.1%}" for count in counts]
    text += f"; {', '.join(parts[:-1])} and {parts[-1]} of counted attempts"
    p = None if by_level else _chance(reading)
    return text if p is None else f"{text} (chi-square test against the declared shares: p {_p(p)})"


def mix_in_words(card: Record) -> str:
    """`70% chat, 30% batch`; where the mix follows a profile, the mean over its levels, said so."""
    populations = declared(card)
    by_level = any(population.get("share_by_level") is not None for population in populations.values())
    text = ", ".join(f"{100 * share(population):.3g}% {name}" for name, population in populations.items())
    return f"{text} (mean over the profile's levels)" if by_level else text


def _p(p: float) -> str:
    return "below 0.001" if p < 0.001 else f"{p:.2g}"


def _chance(reading: Reading) -> float | None:
    """p of the declared shares, given the counted attempts of one arm (Pearson's chi-square).

    Only where each request is drawn by itself (a conversation is one draw), both arms were counted alike (they share
    one plan, so they are one sample and not two), and every population is expected often enough.
    """
    from scipy import special

    card = reading.bundle.card
    if (card["workload"].get("requests") or {}).get("conversations"):
        return None
    populations = declared(card)
    by_arm = [[_attempted(reading.used(arm), name) for name in populations] for arm in card["arms"]]
    counts = by_arm[0]
    expected = [share(population) * sum(counts) for population in populations.values()]
    if any(other != counts for other in by_arm) or min(expected) < _EXPECTED:
        return None
    statistic = sum((count - wanted) ** 2 / wanted for count, wanted in zip(counts, expected, strict=True))
    return float(special.chdtrc(len(counts) - 1, statistic))
