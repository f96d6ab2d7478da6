"""benchcard calibrate [--out FILE] [--quick] [--workers N] [--json]"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ...schema.errors import InputError
from ..descriptors import allow_many_descriptors
from ..files import write_json
from ..instrument.calibrate import calibrate, whole_grid
from ..instrument.certificate import LIMIT_ERROR_S, held
from ..instrument.point import Client


@click.command(
    name="calibrate",
    help="Measure the client on this machine, against a server whose times are known, and write its certificate: up to "
    "which load TTFT and ITL are off by less than 1 ms, CPU time a token and a request, schedule lag. Takes two "
    "minutes (--quick: about 20 s); run nothing else meanwhile.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the certificate to this file.")
@click.option("--quick", is_flag=True, help="A few points only.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--loop", type=click.Choice(["uvloop", "asyncio"]), default="uvloop", show_default=True)
@click.option("--timer", type=click.Choice(["timerfd", "loop"]), default="timerfd", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the certificate as one JSON document.")
def command(out: Path | None, quick: bool, workers: int, loop: str, timer: str, as_json: bool) -> None:
    """Measure the instrument."""
    if out is not None and not out.resolve().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    allow_many_descriptors()
    client = Client(workers, loop == "uvloop", timer == "timerfd")
    found = calibrate(whole_grid(quick), client, _say)
    if out is not None:
        write_json(out, found)
    click.echo(json.dumps(found, indent=2) if as_json else _text(found))
    if out is not None and not as_json:
        click.echo(out)


def _say(label: str, number: int, of: int) -> None:
    print(f"[{number}/{of}] {label}", file=sys.stderr, flush=True)


def _text(found: dict[str, Any]) -> str:
    client, most = found["client"], found["limits"]
    lines = [_HEAD, *(_row(point) for point in found["points"]), ""]
    lines.append("Errors: the client's figure less the server's. Held: TTFT p50 and p99 and ITL p99 within 1 ms.")
    lines.append("µs/token, µs/req: the client's whole CPU time over its tokens, and over its requests.")
    lines.append(
        f"Up to {_number(most['streams'])} streams at once, {_number(most['tokens_per_s'])} tokens/s and "
        f"{_number(most['requests_per_s'])} req/s they held, by {client['workers']} worker"
        f"{'s' if client['workers'] > 1 else ''} ({client['loop']}, {client['timer']})."
    )
    return "\n".join([*lines, *client["costs"]])


_HEAD = (
    "load                         tokens/s    req/s  TTFT p50 err  ITL p99 err   lag p99  loop lag p99   CPU  "
    "µs/token  µs/req  held"
)


def _row(point: dict[str, Any]) -> str:
    load = f"{point['streams']} × {point['itl'] * 1e3:.3g} ms" if point["streams"] else f"{point['rate']:g} req/s"
    load += ", lockstep" if point["lockstep"] else ""
    return (
        f"{load:<26}{point['tokens_per_s']:>11,.0f}{point['requests_per_s']:>9,.0f}"
        f"{_ms(point['ttft_p50_error']):>14}{_ms(point['itl_p99_error']):>13}{_ms(point['lag_p99']):>10}"
        f"{_ms(point['loop_lag_p99']):>14}{point['cpu']:>6.0%}{(point['cpu_per_token'] or 0) * 1e6:>10.1f}"
        f"{(point['cpu_per_request'] or 0) * 1e6:>8.0f}  {'yes' if held(point, LIMIT_ERROR_S) else 'no'}"
    )


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.3f} ms"


def _number(value: float | None) -> str:
    return "no" if value is None else f"{value:,.0f}"
