"""Did the treatment take effect at all? The server's own metrics say so.

An arm's value is a ratio of sums (of a `.max`: the largest) over the used blocks' cells at the claimed loads, by the
formulas of `server_metrics`. A metric that is missing, or a server that was reset within a cell, makes the value
unknown, with the reason: never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .read import Bundle, Cell
from .records import BundleError, Record
from .server_cell import read_server
from .server_metrics import EVIDENCE, SERVER_METRICS, over_cells
from .servers import behind_a_balancer


def judge_evidence(
    bundle: Bundle, rows: Iterable[dict[str, Any]], cells: Iterable[Cell], at: Iterable[float]
) -> list[Record]:
    """The card's evidence rows with what was observed and the word holds, fails or unknown.

    With a zero denominator the ratio is undefined, but what it stands for is known not to have happened: `at_most`
    holds and `at_least` fails. If the numerator is not zero, too (preemptions, and no request finished), it did
    happen, how often is not known.
    """
    claimed, rows = set(at), list(rows)
    arms = {row["arm"] for row in rows}
    used = [cell for cell in cells if cell.load in claimed and cell.arm in arms]
    told = [(cell, read_server(bundle.server(cell), bundle.client(cell))) for cell in used]
    out = []
    for row in rows:
        if row["metric"] not in EVIDENCE:
            known = ", ".join(EVIDENCE)
            raise BundleError(
                f"card.resolved.json: evidence: no formula for {row['metric']!r}; there is one for {known}"
            )
        metric = SERVER_METRICS[row["metric"]]
        at_least = row["direction"] == "at_least"
        of_arm = ((cell.cell, server) for cell, server in told if cell.arm == row["arm"])
        numerator, denominator, reason = over_cells(metric, of_arm)
        reason = behind_a_balancer(bundle, row["arm"]) or reason
        observed = None
        if reason is not None:
            word = "unknown"
        elif denominator == 0 and numerator > 0:
            word, reason = "unknown", f"{metric.none}, yet {numerator:g} were counted that are divided by it"
        elif denominator == 0:
            word, reason = "fails" if at_least else "holds", metric.none
        else:
            observed = metric.offset + numerator / denominator
            holds: Callable[[float, float], bool] = (lambda x, y: x >= y) if at_least else (lambda x, y: x <= y)
            word = "holds" if holds(observed, row["limit"]) else "fails"
        kept = {key: row[key] for key in ("metric", "arm", "direction", "limit")}
        out.append({**kept, "observed": observed, "word": word, "reason": reason})
    return out
