"""Before a server of somebody else is measured: how many answer, how far it is, whether the way holds streams back, and
whether it is the other arm's. What must not be ends the run before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...schema.errors import SystemUnderTestError
from ...schema.probe_file import probe_fields
from ..engines.fleet import Running
from ..identity.fields import Field, observed, unknown
from ..measure import body_of
from ..plan.blocks import declared_arm
from ..plan.plan import Plan
from ..plan.prompts import document
from ..tokens.words import Words
from .buffering import OF_THE_WAY, TOKENS, TRIES, Arrivals, arrivals
from .line import FAULTS, Line, Streamed
from .probed import with_probe
from .replicas import LOOKS, Look, Seen, did_not_serve, look, one_process, replica_headers, replicas_seen
from .round_trip import large_share, round_trip

#: tokens of the prompt of a short request; no planned prompt is of block 0
_PROMPT_TOKENS = 16


@dataclass(frozen=True)
class _Place:
    """What was seen of a place: its facts, and a look at its process."""

    fields: dict[str, Field]
    process: Look | None


class Preflight:
    """Looks at each place once, and again when the arms have moved. `say` tells a person."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._seen: dict[str, _Place] = {}
        self._addresses: dict[str, Running] = {}

    def moved(self) -> None:
        """What was seen of the places no longer holds: other servers may answer there."""
        self._seen.clear()
        self._addresses.clear()

    def fields(self, running: Running, fields: dict[str, Field]) -> dict[str, Field]:
        """The facts to add to an arm's identity `fields`. Raises SystemUnderTestError for a server that must not be
        measured. One that the run itself starts has its round trip alone."""
        if running.process is not None:
            found = round_trip(running.endpoint)
            return {"server.round_trip": _volatile(unknown(found) if isinstance(found, str) else observed(found))}
        self.look(running)
        return {**self._seen[str(running.place)].fields, **self._probed(running, fields)}

    def look(self, running: Running) -> None:
        """Look at the place of a server that somebody else runs, if that was not done: before anything else is asked
        of it, since several servers behind one address contradict one another. Raises as `fields` does."""
        place = running.place
        if place is not None and place not in self._seen:
            self._seen[place] = self._look(running)
            self._refuse_one_server(running)
            self._addresses[place] = running

    def _probed(self, running: Running, fields: dict[str, Field]) -> dict[str, Field]:
        server = self._plan.card["arms"][running.place]["server"]
        if server.get("probe") is None:
            return {}
        probe = probe_fields(self._plan.inputs.data(server["probe"]))
        return with_probe(running.arm, fields, probe, at_home=running.place == declared_arm(running.arm))

    def _look(self, running: Running) -> _Place:
        declared = self._plan.card["arms"][running.place]["server"]["replicas"]
        looks = _looks(running)
        trip = round_trip(running.endpoint)
        streams = self._streams(running)
        replies = [Look(replica_headers(reply.headers), fingerprint=_fingerprint(reply)) for reply in streams]
        seen = _most([*(replicas_seen(found) for found in looks.values()), replicas_seen(replies)])
        if seen.count is not None and seen.count > declared:
            raise SystemUnderTestError(_too_many(running, seen, declared))
        fields = {
            "server.replicas_seen": _count(seen),
            "server.round_trip": _volatile(unknown(trip) if isinstance(trip, str) else observed(trip)),
            **self._buffering(running, streams),
            **_way(streams),
        }
        self._warn(running, trip)
        pages = [found for found in looks.values() if any(x.started is not None for x in found)]
        return _Place(fields, pages[0][-1] if pages else None)

    def _streams(self, running: Running) -> list[Streamed]:
        """Short streamed replies: one of a single token, then of a few tokens each, until one is seen to come as it was
        made; none where they had no answer."""
        path = running.target.path + ("/chat/completions" if _is_chat(self._plan) else "/completions")
        words = Words.from_card(self._plan.card, self._plan.inputs)
        prompt = document(self._plan.seed, 0, 0, 0, _PROMPT_TOKENS + words.template_tokens).tolist()
        body = body_of(self._plan)
        found: list[Streamed] = []
        try:
            for tokens in (1, *[TOKENS] * TRIES):
                with Line(running.endpoint.url, running.endpoint.headers) as line:
                    found.append(line.stream(path, body.whole(prompt, tokens)))
                if tokens > 1 and arrivals(found[0], found[-1]).buffered is False:
                    break
        except FAULTS:
            return []
        return found

    def _buffering(self, running: Running, streams: list[Streamed]) -> dict[str, Field]:
        if len(streams) < 2:
            return {"server.buffering": unknown("a short streamed request had no answer")}
        tries = [arrivals(streams[0], reply) for reply in streams[1:]]
        # What was seen to pass at once is not held back; a stream that says nothing says nothing about the others.
        came = min(tries, key=lambda found: (found.buffered is not False, found.buffered is None))
        if came.buffered is None or came.together is None:
            return {"server.buffering": unknown(came.why)}
        if came.buffered:
            self._refuse_buffer(running, came, came.together, streams[-1])
        return {"server.buffering": observed(came.buffered)}

    def _refuse_buffer(self, running: Running, came: Arrivals, together: float, reply: Streamed) -> None:
        """Token times behind a buffer are the buffer's. Who measures none of them may raise the card's own limit."""
        limit = self._plan.card["validity"]["coalesced_chunks"]
        way = ", ".join(f"{name}: {value}" for name, value in _way_headers(reply).items())
        text = (
            f"{running.arm}: {running.endpoint.url} holds streams back: of {came.chunks} chunks {together:.0%} came "
            f"together with the one before, although the server took {came.generated * 1e3:.0f} ms to make them"
            + (f" ({way})" if way else "")
        )
        if together <= limit:
            self._say(f"{text}; the card allows it (validity.coalesced_chunks)")
            return
        raise SystemUnderTestError(
            f"{text}. Times of tokens would be the buffer's, not the server's. Switch the buffer off (nginx: "
            "proxy_buffering off) or go past it; or, if no token times matter, raise validity.coalesced_chunks to 100% "
            "in a new card"
        )

    def _refuse_one_server(self, running: Running) -> None:
        """Two places that are one server."""
        first = self._seen[str(running.place)].process
        for place, other in self._addresses.items():
            second = _one_look(other)
            again = _one_look(running)
            if first is None or second is None or again is None or not one_process(first, second, again):
                continue
            served = any(reply.status == 200 for reply in self._streams(running))
            if not (served and did_not_serve(second, _one_look(other))):
                raise SystemUnderTestError(
                    f"{other.arm} and {running.arm} are one server: {other.endpoint.url} and {running.endpoint.url} "
                    f"lead to the same process (the server of {place} and that of {running.place} on the card)"
                )

    def _warn(self, running: Running, trip: Any) -> None:
        share = large_share(trip, self._plan.card.get("objectives"))
        if share is not None:
            self._say(
                f"warning: {running.arm}: a round trip to {running.endpoint.url} takes {trip['median'] * 1e3:.3g} ms, "
                f"{share:.0%} of the objective on TTFT"
            )


def _is_chat(plan: Plan) -> bool:
    return bool(plan.card["workload"]["endpoint"] == "chat")


def _pages(running: Running) -> list[str]:
    """Where an address shows its processes: the metrics page of the card, and the one beside the API, which goes the
    way that requests go; and the list of models, for its headers."""
    endpoint = running.endpoint
    pages = [endpoint.metrics, endpoint.root + "/metrics", endpoint.url + "/models"]
    return list(dict.fromkeys(page for page in pages if page is not None))


def _looks(running: Running) -> dict[str, list[Look]]:
    """LOOKS looks at each page."""
    found: dict[str, list[Look]] = {}
    for page in _pages(running):
        looks = [look(running.endpoint, page) for _ in range(LOOKS)]
        found[page] = [x for x in looks if x is not None]
    return found


def _one_look(running: Running) -> Look | None:
    found = (look(running.endpoint, page) for page in _pages(running))
    return next((x for x in found if x is not None and x.started is not None), None)


def _most(found: list[Seen]) -> Seen:
    return max(found, key=lambda seen: seen.count or 0)


def _count(seen: Seen) -> Field:
    if seen.count is None:
        return unknown("neither the server's metrics nor its headers tell one replica from another")
    return observed(seen.count)


def _too_many(running: Running, seen: Seen, declared: int) -> str:
    many = f"{declared} replica{'' if declared == 1 else 's'}"
    return (
        f"{running.arm}: at {running.endpoint.url} at least {seen.count} servers answer; the card says {many}. Seen in "
        f"{LOOKS} looks: {'; '.join(seen.signs)}. Give the address of one of them, or say replicas: {seen.count}"
    )


def _fingerprint(reply: Streamed) -> str | None:
    found = (event.get("system_fingerprint") for _, event in reply.events)
    return next((str(value) for value in found if value), None)


def _way_headers(reply: Streamed) -> dict[str, str]:
    return {name: reply.headers[name] for name in OF_THE_WAY if name in reply.headers}


def _way(streams: list[Streamed]) -> dict[str, Field]:
    """What the replies tell of the way, which replica answered, and the engine's fingerprint."""
    if not streams:
        return {}
    fields = {"server.headers": observed(_way_headers(streams[-1]))}
    replicas = replica_headers(streams[-1].headers)
    if replicas:
        fields["server.answered_by"] = _volatile(observed(replicas))
    fingerprint = _fingerprint(streams[-1])
    if fingerprint is not None:
        fields["engine.system_fingerprint"] = observed(fingerprint)
    return fields


def _volatile(field: Field) -> Field:
    return {**field, "volatile": True}
