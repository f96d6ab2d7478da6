"""The identity files of a run: what each arm was when it was first started, and what each cell found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ...schema.digest import digest_file
from ..attempts import AttemptLog
from ..bundle import Bundle
from ..engines.fleet import Running
from ..engines.probe import Probe
from ..files import read_json, write_json
from ..plan.blocks import Cell
from ..secrets import redactor
from .digests import Digests
from .environment import forget_unshown
from .fields import IDENTITY_VERSION, Fields, changed, gone
from .neighbours import Neighbours
from .observe import Server, identify, look_again, neighbour_fields


class Records:
    """Looks at a run's servers and writes down what they are. `remote` gives the facts of a server that somebody else
    runs which only the way to it, or a probe's file, tells."""

    def __init__(
        self, bundle: Bundle, card: dict[str, Any], log: AttemptLog, remote: Callable[[Running, Fields], Fields]
    ) -> None:
        self._bundle = bundle
        self._card = card
        self._log = log
        self._remote = remote
        self._digests = Digests()
        self._neighbours = Neighbours()
        self._known: dict[str, Fields] = {}
        self._tokenizer: dict[str, Fields] = {}
        forget_unshown()

    def started(self, running: Running, probe: Probe, tokenizer: Fields) -> None:
        """A server came up: the whole look, and identity/<arm>.json if it is the arm's first. Raises
        SystemUnderTestError where it is not what the card says."""
        arm, path = running.arm, self._bundle.identity(running.arm)
        self._tokenizer[arm] = tokenizer
        fields = self._whole(running, probe)
        if not path.exists():
            fields = {**fields, **neighbour_fields(self._neighbours)}
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            write_json(path, {"identity_version": IDENTITY_VERSION, "arm": arm, "observed": now, "fields": fields})
            self._log.append("identity", arm=arm, sha256_of_file=digest_file(path))

    def before(self, cell: Cell, running: Running) -> None:
        """identity/cells/<cell>.json, before the cell's load: in what the server differs from the arm's first look.
        Raises SystemUnderTestError where it is no longer what the card says."""
        probe = Probe(running.endpoint)
        try:
            fields = look_again(self._card, cell.arm, probe, _server(running), self._known[cell.arm])
            if fields is None:
                fields = self._whole(running, probe)
        finally:
            probe.close()
        self._known[cell.arm] = {name: field for name, field in fields.items() if name != "server.answers"}
        fields = redactor().value({**fields, **neighbour_fields(self._neighbours)})
        first = read_json(self._bundle.identity(cell.arm))["fields"]
        path = self._bundle.cell_identity(cell.cell)
        path.parent.mkdir(exist_ok=True)
        document = {
            "cell": cell.cell,
            "arm": cell.arm,
            "of": f"identity/{cell.arm}.json",
            "fields": changed(first, fields),
            "gone": gone(first, fields),
        }
        write_json(path, document)

    def _whole(self, running: Running, probe: Probe) -> Fields:
        tokenizer = self._tokenizer.get(running.arm, {})
        found = identify(self._card, running.arm, probe, _server(running), self._digests, tokenizer)
        if running.process is None:
            found |= self._remote(running, found)
        fields: Fields = redactor().value(found)
        self._known[running.arm] = fields
        return fields


def _server(running: Running) -> Server:
    pid = None if running.process is None else running.process.pid
    return Server(pid, running.target.port, running.env)
