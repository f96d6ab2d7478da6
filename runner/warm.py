"""What is done to a server's prefix cache before a cell: nothing, emptied, or warmed as the card declares."""

from __future__ import annotations

import json
import time
from typing import Any

from .client.wire import Body
from .engines.fleet import Running
from .engines.launch import model_name
from .engines.probe import Probe
from .plan.blocks import Cell
from .plan.plan import Plan
from .plan.prompts import document, salted
from .plan.reuse import shared_documents
from .plan.salt import salt_of
from .tokens.words import Words


def prepare_cache(plan: Plan, cell: Cell, running: Running) -> dict[str, Any] | None:
    """Bring the cache into the state that the card declares. Returns what the log should say of it, or None where
    nothing was done. Raises SystemUnderTestError if the server did not do it; nothing was measured then."""
    state = plan.card["workload"]["cache_state"]
    if state != "reset" and not isinstance(state, dict):
        return None
    probe = Probe(running.endpoint)
    begun = time.monotonic()
    try:
        if state == "reset":
            probe.reset_prefix_cache()
            return {"state": "reset", "seconds": time.monotonic() - begun}
        documents = shared_documents(plan.card, plan.requests[cell.block, cell.load_point])
        for group, tokens in documents.items():
            probe.generate(plan.card["workload"]["endpoint"], _body(plan, cell, group, tokens))
    finally:
        probe.close()
    return {
        "state": "warm",
        "documents": len(documents),
        "tokens": sum(documents.values()),
        "seconds": time.monotonic() - begun,
    }


def _body(plan: Plan, cell: Cell, group: int, tokens: int) -> bytes:
    """A request for one token after a document, salted as the cell's prompts are."""
    text = salted(document(plan.seed, cell.block, cell.load_point, group, tokens), salt_of(plan, cell))
    words = Words.from_card(plan.card, plan.inputs)
    ids = text.tolist()
    # A chat template takes the place of the last words: as many more, and the whole document is there.
    ids += ids[:1] * words.template_tokens
    before, own, _ = Body(plan.card, model_name(plan.card), words=words).parts(ids, 1)
    asked = {"max_tokens": 1, "temperature": 0.0}
    return before + own + b"]," + json.dumps(asked, separators=(",", ":")).encode()[1:]
