"""The checks of an audit that ask the attempt log how the run went: in what order, replaced why, on what system."""

from __future__ import annotations

from collections.abc import Iterator

from ...schema.digest import digest_file
from ..files import read_json
from ..plan.blocks import BASELINE, BASELINE_AA
from .context import Context

#: what the baseline's two runs in A/A blocks must have in common in any identity file, old ones too
_ALIKE = (
    *("engine.version", "model.name", "model.context_limit", "process.argv", "process.env", "model.weights_sha256"),
    *("engine.flags", "server.url"),
)


def order(context: Context) -> Iterator[str]:
    """Cells ran in the planned order, none twice, and a block was left early only when the log says it was replaced (an
    A/A block: or lost)."""
    blocks = {block.block: block for block in context.plan.blocks}
    replaced = {line["block"]: line for line in context.lines("block_replaced", "block_lost")}
    queue = [block.block for block in context.plan.blocks if not block.spare]
    queue += [line["by"] for line in context.lines("block_replaced")]
    began = [line["cell"] for line in context.lines("cell_started")]
    at = 0
    for number in queue:
        if number not in blocks:
            yield f"attempts.jsonl: block {number} is not in the plan"
            continue
        for cell in blocks[number].cells:
            if at < len(began) and began[at] == cell.cell:
                at += 1
            elif number not in replaced and (at < len(began) or _ended_complete(context)):
                found = began[at] if at < len(began) else "nothing"
                yield f"attempts.jsonl: cell {cell.cell} was due, and {found} was run"
                return
            else:
                break
    if at < len(began):
        yield f"attempts.jsonl: cell {began[at]} was run out of the planned order"


def replacements(context: Context) -> Iterator[str]:
    """A block was replaced (an A/A block: or left out) only because a cell of it was killed or failed a validity check,
    whatever its result; and by a spare of its kind."""
    killed = {line["cell"] for line in context.lines("cell_killed")}
    again = context.result_again
    cells = {cell["cell"]: cell for block in [*again["blocks"], *again.get("aa_blocks", [])] for cell in block["cells"]}
    blocks = {block.block: block for block in context.plan.blocks}
    for line in context.lines("cell_ended"):
        cell = cells.get(line["cell"], {})
        if "valid" in cell and cell["valid"] is not None and bool(line["valid"]) != bool(cell["valid"]):
            yield (
                f"attempts.jsonl: cell {line['cell']} was taken as {'valid' if line['valid'] else 'invalid'}; "
                f"its raw events say {'valid' if cell['valid'] else 'invalid'}"
            )
    for line in context.lines("block_replaced", "block_lost"):
        block, by = blocks.get(line["block"]), blocks.get(line.get("by", 0))
        what = "replaced" if line["kind"] == "block_replaced" else "left out"
        if block is not None and (not block.aa if what == "left out" else by is not None and by.aa != block.aa):
            yield f"attempts.jsonl: block {line['block']} was {what} as no block of its kind is"
        names = [] if block is None else [cell.cell for cell in block.cells]
        invalid = [name for name in names if cells.get(name, {}).get("valid") is False and name not in killed]
        if not invalid and not killed.intersection(names):
            yield f"attempts.jsonl: block {line['block']} was {what}, and none of its cells was killed or invalid"


def identity(context: Context) -> Iterator[str]:
    """Every arm says what it was, and each server of an arm was started by the same command; in A/A blocks both runs of
    the baseline were the same system."""
    begun = {cell.cell for cell in context.plan.cells()} & {line["cell"] for line in context.lines("cell_started")}
    ran = {cell.arm for cell in context.plan.cells() if cell.cell in begun}
    for arm in [*context.card["arms"], *({BASELINE_AA} & ran)]:
        path = context.bundle.identity(arm)
        digests = {line["sha256_of_file"] for line in context.lines("identity") if line["arm"] == arm}
        if not path.exists():
            yield f"identity/{arm}.json: missing"
        elif digests and digest_file(path) not in digests:
            yield f"identity/{arm}.json: not the file that was written when the arm was first started"
        commands = {
            tuple(_without_port(line["argv"])) for line in context.lines("server_started") if line["arm"] == arm
        }
        if len(commands) > 1:
            yield f"attempts.jsonl: servers of {arm} were started by {len(commands)} different commands"
    if BASELINE_AA in ran:
        yield from _same_system(context)
    yield from _cell_identities(context)


def _cell_identities(context: Context) -> Iterator[str]:
    """What each cell found before its load is in the file that the log says, and there is no other. (A log of before
    each cell was looked at names none.)"""
    begun = {line["cell"] for line in context.lines("cell_started")}
    for line in context.lines("cell_ended"):
        if "identity_sha256" not in line:
            continue
        path = context.bundle.cell_identity(line["cell"])
        if not path.exists() or digest_file(path) != line["identity_sha256"]:
            yield f"identity/cells/{path.name}: not the file that was written before the cell's load"
    for path in sorted((context.bundle.root / "identity" / "cells").glob("*")):
        if path.stem not in begun:
            yield f"identity/cells/{path.name}: the log knows of no such cell"


def _same_system(context: Context) -> Iterator[str]:
    """What the baseline's two runs in A/A blocks are not alike in."""
    both = [context.bundle.identity(arm) for arm in (BASELINE, BASELINE_AA)]
    if all(path.exists() for path in both):
        found = [read_json(path)["fields"] for path in both]
        for name in _ALIKE:
            if found[0].get(name) != found[1].get(name):
                yield f"identity/{BASELINE_AA}.json: {name} is not the baseline's"
    commands = {
        arm: {tuple(_without_port(line["argv"])) for line in context.lines("server_started") if line["arm"] == arm}
        for arm in (BASELINE, BASELINE_AA)
    }
    if commands[BASELINE_AA] - commands[BASELINE]:
        yield f"attempts.jsonl: a server of {BASELINE_AA} was started by another command than the baseline's"


def _ended_complete(context: Context) -> bool:
    ended = context.lines("run_ended")
    return bool(ended) and ended[-1].get("why") == "complete"


def _without_port(argv: list[str]) -> list[str]:
    """A command without what differs between two starts: the port, and the engine's own log file."""
    volatile = {index + 1 for index, part in enumerate(argv) if part in ("--port", "--log")}
    return [part for index, part in enumerate(argv) if index not in volatile]
