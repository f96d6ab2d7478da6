"""Everything that this host tells of a server that runs on it: process, container, host, accelerators, model files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from . import procfs
from .accelerators import accelerator_fields
from .container import container_fields
from .digests import Digests
from .fields import Fields
from .host import host_fields
from .model import model_fields, options_of, with_file
from .process import Tree, environment, process_fields


def local_fields(
    tree: Tree, digests: Digests, named: Iterable[str] = (), model: str | None = None, since: float | None = None
) -> Fields:
    """The facts about a server's processes on this host. `named`: variables of the environment that the card names;
    `model`: where the weights are if the server's command does not say; `since`: when the server was started, if that
    may be long ago."""
    env = environment(tree)
    what = with_file(*options_of(procfs.command_line(tree.pid)), lambda path: procfs.seen_by(tree.pid, path))
    what = replace(what, model=what.model or model, env=env, since=since)
    return {
        **process_fields(tree, digests, named),
        **model_fields(what, digests),
        **container_fields(tree.pid, env),
        **host_fields(tree.pid),
        **accelerator_fields(tree.all),
    }
