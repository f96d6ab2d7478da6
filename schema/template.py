"""`benchcard new`: a first card, commented, that validates and runs as it is on the embedded engine."""

from __future__ import annotations

import re

from .errors import InputError
from .phrase import show
from .quantity import QuantityError
from .scalar import plain_scalar

_ID = re.compile(r"[a-z0-9-]{1,64}")

_AB = """\
# Change what stands here into your own question; `benchcard explain KEY` says what a key guards.
card: 1
kind: ab
id: {name}
decision:
  question: "Turn prefix caching on for the document service?"  # what will you do with the answer?
  owner: serving
  budget: 20 min                   # what the answer may cost
claim:                             # fixed now: an effect below the threshold falsifies it
  metric: goodput
  must_rise_by: 5%
  at: [50 req/s]
guards:                            # what must not get worse meanwhile
  - {{metric: tpot.p50, may_rise_by: 10%}}
  - {{metric: error_rate, may_rise_by: 0.5 pt}}
system:
  engine: {{kind: simulated, speedup: 10}}   # or vllm with a model: {{path: …}}, or openai
  flags: {{max-num-seqs: 32, max-num-batched-tokens: 2048}}
arms:                              # what they declare differently is the treatment
  baseline:  {{flags: {{enable-prefix-caching: false}}}}
  candidate: {{flags: {{enable-prefix-caching: true}}}}
workload:
  arrivals: poisson                # open loop; {{process: closed}} with concurrency: [1, 4] closes it
  loads: [20 req/s, 50 req/s]      # from the latency floor past the knee
  window: {{warmup: 0.5 s, measure: 2 s}}
  requests:
    prefix: {{documents: 12, tokens: 1500, choice: zipf 1.1}}     # the shared part of the prompts
    lengths: {{input: {{median: 120, sigma: 0.4}}, output: {{median: 60, sigma: 0.5}}}}
  client: {{timeout_total: 10 s}}    # slower attempts have failed, and stay in every denominator
objectives:                        # an attempt is good only if all hold
  ttft: {{at_most: 30 ms}}
  itl: {{every: 15 ms}}
method: {{blocks: 8, seed: 1, pause_between_cells: 0 s}}   # at least 6; aa: {{}} adds A/A blocks
"""

_BASELINE = """\
# Change what stands here into your own system; `benchcard explain KEY` says what a key guards.
card: 1
kind: baseline
id: {name}
decision:
  question: "What do later experiments stand on?"   # what will you do with the answer?
  owner: research
  budget: 20 min                   # what the answer may cost
system:
  engine: {{kind: simulated, speedup: 10}}   # or vllm with a model: {{path: …}}, or openai
  flags: {{max-num-seqs: 32, max-num-batched-tokens: 2048}}
workload:
  arrivals: {{process: closed}}      # clients that wait; poisson, with loads, is an open loop
  concurrency: [1, 4, 8, 16]
  window: {{warmup: 16 requests, measure: 130 requests}}   # 130: the fewest that carry a p95
  requests: {{lengths: {{input: 64, output: 64}}}}
  client: {{timeout_total: 10 s}}    # slower attempts have failed, and stay in every denominator
  sampling: {{temperature: 0.0, ignore_eos: true}}
objectives:                        # optional here: an attempt is good only if all hold
  ttft: {{at_most: 30 ms}}
  itl: {{every: 15 ms}}
method: {{repeats: 3, seed: 1, pause_between_cells: 0 s}}   # the repeats give the noise floor
"""

TEMPLATES = {"ab": _AB, "baseline": _BASELINE}


def new_card(name: str, kind: str) -> str:
    """The text of a first card named `name` (its id), of kind ab or baseline. It validates as it is.

    Raises InputError for a name that cannot be an id (1 to 64 of a-z, 0-9 and -) and for an unknown kind."""
    if _ID.fullmatch(name) is None:
        likely = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64]
        hint = f" (such as {likely})" if likely else ""
        raise InputError(f"found the name {show(name)}; wanted 1 to 64 of a-z, 0-9 and -{hint}")
    if kind not in TEMPLATES:
        raise InputError(f"found the kind {show(kind)}; wanted {' or '.join(TEMPLATES)}")
    return TEMPLATES[kind].format(name=_written(name))


def _written(name: str) -> str:
    """An id as YAML needs it: `no`, `1e3` and `-` are names only in quotes."""
    try:
        plain = isinstance(plain_scalar(name), str) and not name.startswith("-")
    except QuantityError:
        plain = False
    return name if plain else f'"{name}"'
