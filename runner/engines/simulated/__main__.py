"""`python -m benchcard.runner.engines.simulated`: the embedded engine, with vLLM's flags where it has them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchcard.schema.errors import InputError, SystemUnderTestError

from .config import FLAGS, EngineConfig, config_from_flags
from .costs import COSTS


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop. Exit codes: 0 stopped by a signal, 1 the port cannot be had, 2 a bad flag."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        config = _config(arguments)
    except InputError as error:
        parser.error(str(error))
    from .server import listen, serve  # what is needed to serve is not needed to say that a flag is wrong

    try:
        listener = listen(arguments.host, arguments.port)
    except SystemUnderTestError as error:
        print(f"simulated engine: {error}", file=sys.stderr)
        return 1
    host, port = listener.getsockname()[:2]
    print(
        f"simulated engine: serving {arguments.served_model_name} on http://{host}:{port}", file=sys.stderr, flush=True
    )
    serve(config, arguments.served_model_name, listener, arguments.log)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchcard engine simulated",
        description="A continuous-batching engine with declared costs, over real HTTP.",
        allow_abbrev=False,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default %(default)s)")
    parser.add_argument("--served-model-name", default="simulated", metavar="NAME", help="default %(default)s")
    parser.add_argument(
        "--costs", default="atlas", help=f"cost table: {', '.join(sorted(COSTS))} (default %(default)s)"
    )
    parser.add_argument(
        "--speedup", type=float, default=1.0, help="what all costs are divided by (default %(default)s)"
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="write a JSON line for each request that ended")
    for name, flag in FLAGS.items():
        default = "" if flag.default in (None, "") else f" (default {flag.default})"
        text = (flag.meaning + default).replace("%", "%%")
        if flag.type is bool:
            parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(f"--{name}", type=flag.type, metavar="N" if flag.type is int else "SPEC", help=text)
    return parser


def _config(arguments: argparse.Namespace) -> EngineConfig:
    """The configuration the flags ask for; the engine's epoch is now."""
    given = {name: getattr(arguments, name.replace("-", "_")) for name in FLAGS}
    flags = {name: value for name, value in given.items() if value is not None}
    return config_from_flags(flags, costs=arguments.costs, speedup=arguments.speedup, epoch_ns=time.monotonic_ns())


if __name__ == "__main__":
    sys.exit(main())
