"""Rules about the systems: what the arms differ in, how servers are started or reached, and secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .defaults import Filled
from .errors import Problem
from .node import Node
from .phrase import KeyPath, holds_secret, is_secret_name, is_secret_text
from .resolve import flags

#: flags that the runner sets itself, and the key of the card that says what they should be
_OURS = {
    "host": "",
    "model": "system.model.path",
    "served-model-name": "system.model.name",
    "costs": "system.engine.costs",
    "speedup": "system.engine.speedup",
    "log": "",
}
_ARMS = ("baseline", "candidate")
#: commands on a card
_COMMANDS: tuple[KeyPath, ...] = (
    ("system", "launch", "command"), ("method", "swap", "command"),
    ("method", "aa", "command", "before"), ("method", "aa", "command", "after"),
)  # fmt: skip


def _flag_nodes(filled: Filled) -> Iterator[tuple[KeyPath, Node]]:
    for path in (("system", "flags"), ("arms", "baseline", "flags"), ("arms", "candidate", "flags")):
        node = filled.root.at(path)
        for name, value in (node.mapping if node is not None else {}).items():
            yield (*path, name), value


def _flags_are_spelt_right(filled: Filled) -> Iterator[Problem]:
    """One spelling for each flag: else a treatment could hide behind the second one."""
    for path, node in _flag_nodes(filled):
        name = str(path[-1])
        if is_secret_name(name):
            hint = "set it in the environment that starts benchcard"
            yield filled.problem(
                path, "a flag that holds a secret, which is not shown", "no secret on a card", hint, at_key=True
            )
        elif name.startswith("-") or not name.replace("-", "").replace(".", "").isalnum():
            wanted = "the flag's name without dashes in front, as in max-num-seqs"
            yield filled.problem(path, f"the flag {name!r}", wanted, at_key=True)
        elif name.startswith("no-") and isinstance(node.value, bool):
            wanted = f"{name[3:]}: {str(not node.value).lower()}"
            yield filled.problem(path, f"the flag {name}", wanted, "a switch has one name", at_key=True)
        elif name in _OURS:
            instead = f"leave it out, and say it in {_OURS[name]}" if _OURS[name] else "leave it out"
            yield filled.problem(
                path,
                f"the flag {name}, which the runner sets",
                "flags of the engine's own",
                instead,
                at_key=True,
            )


def _no_secret_in_environment(filled: Filled) -> Iterator[Problem]:
    for above in (("system", "launch"), ("arms", "baseline"), ("arms", "candidate")):
        for name in filled.get(*above, "env") or {}:
            if is_secret_name(name):
                hint = "set it in the environment that starts benchcard"
                found = f"{name} with its value, which is not shown"
                yield filled.problem((*above, "env", name), found, "no secret on a card", hint, at_key=True)


def _no_secret_in_commands(filled: Filled) -> Iterator[Problem]:
    for path in _COMMANDS:
        words = filled.get(*path) or []
        for index, word in enumerate(words):
            name, equals, _ = str(word).lstrip("-").partition("=")
            follows = str(word).startswith("-") and index + 1 < len(words)
            if is_secret_name(name) and (equals or follows) and not is_secret_text(str(word)):
                hint = "set it in the environment that starts benchcard"
                yield filled.problem((*path, index), "a secret, which is not shown", "no secret on a card", hint)


def _no_secret_in_text(filled: Filled) -> Iterator[Problem]:
    """Not in the value of a harmless variable either, nor in a command, a fact, or a question."""
    for path, node in _texts(filled.root, ()):
        if is_secret_text(str(node.value)) and not holds_secret(path) and path[-1:] not in (("url",), ("metrics",)):
            found = "a text with a password or a key in it, which is not shown"
            hint = "what a server needs it inherits from the environment that starts benchcard"
            yield filled.problem(path, found, "no secret on a card", hint)


def _texts(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    for name, below in node.mapping.items():
        yield from _texts(below, (*path, name))
    for index, below in enumerate(node.items):
        yield from _texts(below, (*path, index))
    if isinstance(node.value, str):
        yield path, node


def _as_started(found: dict[str, Any]) -> dict[str, str]:
    """Flags as the command line has them: 32 and "32" are one flag, and another port is no treatment."""
    return {
        name: repr(value) if isinstance(value, bool) else str(value) for name, value in found.items() if name != "port"
    }


def _treatment_is_declared(filled: Filled) -> Iterator[Problem]:
    """Two arms that are launched alike are one system; an A/B of it can only find noise."""
    arms = [filled.get("arms", arm) for arm in _ARMS]
    if (
        filled.kind != "ab"
        or filled.engine not in ("simulated", "vllm")
        or not all(isinstance(arm, dict) for arm in arms)
    ):
        return
    beside = ("system.flags", "system.launch.env", *(f"arms.{arm}" for arm in _ARMS))
    if any(path.startswith(beside) for path in filled.bad):
        return
    shared = flags(filled.get("system", "flags"))
    env = filled.get("system", "launch", "env") or {}
    effective = [(_as_started(shared | flags(arm.get("flags"))), env | (arm.get("env") or {})) for arm in arms]
    if effective[0] == effective[1]:
        wanted = "a flag or a variable that differs: the treatment"
        yield filled.problem(("arms",), "arms that differ in nothing", wanted, at_key=True)


def _model_is_named(filled: Filled) -> Iterator[Problem]:
    if not filled.engine or filled.get("system", "model", "name") or filled.on_card("system", "model", "name"):
        return
    if filled.engine == "openai" or not filled.on_card("system", "model", "path"):
        wanted = "system.model.name" + (" or system.model.path" if filled.engine == "vllm" else "")
        yield filled.problem(("system", "model"), "a model without a name", wanted)


def _servers_are_named(filled: Filled) -> Iterator[Problem]:
    """A server that nobody here starts must be named for each arm."""
    if filled.engine != "openai":
        return
    for arm in _ARMS if filled.kind == "ab" else _ARMS[:1]:
        if filled.kind == "ab" and not filled.on_card("arms", arm):
            continue
        if not filled.on_card("arms", arm, "server"):
            wanted = "the key server, with its url"
            yield filled.problem(
                ("arms", arm, "server"),
                "nothing",
                wanted,
                "the engine openai is a server that somebody else runs",
            )


def _idle_has_meaning(filled: Filled) -> Iterator[Problem]:
    if filled.get("system", "launch", "restart") == "never" and filled.on_card("system", "launch", "idle"):
        found = "idle with restart: never"
        yield filled.problem(("system", "launch", "idle"), found, "no such key", "both servers stay up", at_key=True)


SYSTEM_RULES = (
    _flags_are_spelt_right,
    _no_secret_in_environment,
    _no_secret_in_commands,
    _no_secret_in_text,
    _treatment_is_declared,
    _model_is_named,
    _servers_are_named,
    _idle_has_meaning,
)
