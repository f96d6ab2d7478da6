"""benchcard's client beside others': the same work, one after another, against one server with known timing.

    python tests/performance/compare.py [--streams 256] [--requests 1024] [--tokens 200] [--only NAME …] [--json]
                                        [--aiperf PATH] [--guidellm PATH] [--vllm PATH] [--tokenizer FOLDER]

Prints a Markdown table. What stands in parentheses is what the server's own log says of the same replies: a client is
right as far as it says the same, and fast as far as the server's figures are those asked for. With two cores or more
the server has one and the client another, whatever processes it starts. TTFT runs from a request's sending to its first
chunk with text. A client that is not installed, or fails, has a row that says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ours import benchcard_row
from peers import PEERS, Installed
from row import Row, table
from server import truth_server
from truth import Work

OURS = "benchcard"


def main() -> None:
    """The command line."""
    arguments = _arguments()
    work = Work(arguments.streams, arguments.requests, arguments.tokens)
    installed = Installed.find(arguments.vllm, arguments.aiperf, arguments.guidellm, arguments.tokenizer)
    rows: list[Row] = []
    with truth_server(arguments.ttft, arguments.itl) as server:
        for name in arguments.only or [OURS, *PEERS]:
            print(f"{name} …", file=sys.stderr, flush=True)
            if name == OURS:
                rows.append(benchcard_row(server, work.streams, work.requests, work.tokens))
            else:
                rows.append(PEERS[name](server, work, installed))
    print(json.dumps([asdict(row) for row in rows], indent=1) if arguments.json else table(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="benchcard's client beside others', against known timing.")
    parser.add_argument("--streams", type=_positive, default=256, help="requests in flight")
    parser.add_argument("--requests", type=_positive, default=1024, help="requests in all")
    parser.add_argument("--tokens", type=_positive, default=200, help="tokens a reply")
    parser.add_argument("--ttft", type=float, default=20.0, help="the server's time to the first token, ms")
    parser.add_argument("--itl", type=float, default=2.0, help="the server's time between tokens, ms")
    parser.add_argument("--only", nargs="+", choices=[OURS, *PEERS], metavar="NAME", help="only these clients")
    parser.add_argument("--vllm", metavar="PATH", help="the vllm executable (.venv-vllm/bin/vllm)")
    parser.add_argument("--aiperf", metavar="PATH", help="the aiperf executable (aiperf on PATH)")
    parser.add_argument("--guidellm", metavar="PATH", help="the guidellm executable (guidellm on PATH)")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="a tokenizer's folder (.models/smollm2-135m-instruct)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments: argparse.Namespace = parser.parse_args()
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    main()
