"""Rules about servers that somebody else runs: one for each arm, and arms that exchange them.

After an exchange, or while the candidate's server has the baseline's configuration, what a server runs is known by what
it says of itself: by `expect`, which must tell the arms apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from .defaults import Filled
from .errors import Problem
from .phrase import KeyPath

_ARMS = ("baseline", "candidate")
_AA: KeyPath = ("method", "aa")
_SWAP: KeyPath = ("method", "swap")


def _servers_are_two(filled: Filled) -> Iterator[Problem]:
    """Two arms at one address are one server, and differ in nothing. (Another key may lead elsewhere: that is seen
    before the run.)"""
    servers = [filled.get("arms", arm, "server") for arm in _ARMS]
    if filled.engine != "openai" or filled.kind != "ab" or not all(isinstance(server, dict) for server in servers):
        return
    first, second = ((server["url"], server.get("api_key")) for server in servers if server)
    if first[0] is not None and first == second:
        found = f"{first[0]}, which is the baseline's server too"
        yield filled.problem(("arms", "candidate", "server", "url"), found, "the address of another server")


def _told_apart(filled: Filled) -> bool:
    """Whether some setting is expected of both arms, and not the same."""
    first, second = (filled.get("arms", arm, "expect") or {} for arm in _ARMS)
    return any(str(first[key]).lower() != str(second[key]).lower() for key in first.keys() & second.keys())


def _a_swap_can_be_verified(filled: Filled) -> Iterator[Problem]:
    if isinstance(filled.get(*_SWAP), dict) and filled.engine == "openai" and not _told_apart(filled):
        wanted = "in `expect` of both arms one setting with different values"
        hint = "else nobody can see that the arms changed places"
        yield filled.problem(_SWAP, "a swap of arms that `expect` does not tell apart", wanted, hint, at_key=True)


def _a_swap_leaves_two_sides(filled: Filled) -> Iterator[Problem]:
    after, blocks = filled.get(*_SWAP, "after_block"), filled.get("method", "blocks")
    if isinstance(after, int) and isinstance(blocks, int) and after >= 2 and blocks - after < 2:
        wanted = f"from 2 to {blocks - 2}" if blocks > 4 else "more blocks"
        found = f"{after} of {blocks} blocks before the swap"
        yield filled.problem((*_SWAP, "after_block"), found, wanted, "at least 2 blocks on either side")


def _aa_across_servers(filled: Filled) -> Iterator[Problem]:
    across, command = (filled.on_card(*_AA, key) for key in ("across", "command"))
    if filled.engine != "openai" or not (across or command):
        return
    if not across:
        found, wanted = "commands of A/A blocks at one server", "across: servers, or no command"
        yield filled.problem((*_AA, "command"), found, wanted, at_key=True)
    elif not _told_apart(filled):
        wanted = "in `expect` of both arms one setting with different values"
        hint = "else nobody can see which configuration the candidate's server has"
        found = "A/A across the servers of arms that `expect` does not tell apart"
        yield filled.problem((*_AA, "across"), found, wanted, hint, at_key=True)


PLACES_RULES = (
    _servers_are_two,
    _a_swap_can_be_verified,
    _a_swap_leaves_two_sides,
    _aa_across_servers,
)
