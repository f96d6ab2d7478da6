"""The engine's HTTP server: vLLM's endpoints in front of the player."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib.metadata
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from benchcard.schema.errors import SystemUnderTestError

from .api import ApiError, parse_generation, tokenize
from .config import EngineConfig
from .http import STREAM_HEADERS, Connection, HttpRequest
from .journal import Journal
from .metrics import CONTENT_TYPE
from .player import Player, Reply
from .render import Head, dumps


def version() -> str:
    """The version the engine reports: benchcard's own."""
    return importlib.metadata.version("benchcard")


def fingerprint(config: EngineConfig, model: str) -> str:
    """`system_fingerprint`: version, a hash of model, costs, speedup and context; as vLLM's, not of caching."""
    identity = f"{model}|{config.costs}|{config.speedup}|{config.max_model_len}"
    return f"simulated-{version()}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


class SimulatedServer:
    """Serves every connection. One process, one thread, one engine."""

    def __init__(self, config: EngineConfig, model: str, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        self.connections: set[Connection] = set()
        self._config = config
        self._model = model
        self._player = Player(config, model, journal, loop)
        self._journal = journal
        self._fingerprint = fingerprint(config, model)
        self._started = int(time.time())
        self._replies: dict[Connection, Reply] = {}
        self._routes: dict[tuple[str, str], Callable[[Connection, HttpRequest], None]] = {
            ("GET", "/health"): self._health,
            ("GET", "/ping"): self._health,
            ("GET", "/version"): lambda c, r: self._json(c, {"version": version()}),
            ("GET", "/v1/models"): lambda c, r: self._json(c, self._models()),
            ("GET", "/metrics"): self._metrics,
            ("GET", "/server_info"): lambda c, r: self._json(c, self._server_info(r)),
            ("GET", "/log"): self._log,
            ("POST", "/v1/completions"): lambda c, r: self._generate(c, r, chat=False),
            ("POST", "/v1/chat/completions"): lambda c, r: self._generate(c, r, chat=True),
            ("POST", "/tokenize"): lambda c, r: self._json(c, tokenize(r.body, model, config.max_model_len)),
            ("POST", "/reset_prefix_cache"): self._reset_prefix_cache,
        }

    # -- what a connection asks of its application

    def stamp(self) -> int:
        """The time now, for a request that has just become complete."""
        return self._player.stamp()

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        """Route a request; refusals are replies, too."""
        try:
            route = self._routes.get((request.method, request.path))
            if route is None:
                known = any(path == request.path for _, path in self._routes)
                status, phrase = (405, "Method Not Allowed") if known else (404, "Not Found")
                raise ApiError(status, phrase, phrase)
            route(connection, request)
        except ApiError as error:
            self._reply(connection, error.body, error.status)

    def disconnected(self, connection: Connection) -> None:
        """The client of a connection went away: what it waited for is cancelled."""
        reply = self._replies.pop(connection, None)
        if reply is not None:
            self._player.cancel(reply)

    def close(self) -> None:
        """Stop the engine and drop every connection."""
        for connection in list(self.connections):
            connection.close()
        self._player.close()

    # -- generation

    def _generate(self, connection: Connection, request: HttpRequest, chat: bool) -> None:
        asked = parse_generation(request.body, chat, self._model, self._config.max_model_len)
        request_id = request.headers.get("x-request-id") or os.urandom(16).hex()
        head = Head(
            chat=chat,
            id=f"{'chatcmpl' if chat else 'cmpl'}-{request_id}",
            created=int(time.time()),
            model=self._model,
            fingerprint=self._fingerprint,
            include_usage=asked.include_usage,
            continuous_usage=asked.continuous_usage,
            token_ids=asked.token_ids,
        )
        reply = Reply(connection, head, request_id, asked.prompt, asked.max_tokens, asked.stream)
        # A pipelined request waited for its turn: it arrives now.
        arrival = request.stamp_ns if request.stamp_ns > self._player.scheduler.latest else self.stamp()
        if not self._player.submit(reply, arrival):
            raise ApiError(500, "InternalServerError", "misbehave: error_every")
        self._replies[connection] = reply
        if asked.stream:
            connection.send(STREAM_HEADERS)

    # -- everything else

    def _health(self, connection: Connection, request: HttpRequest) -> None:
        ready = self._config.misbehave.is_ready(time.monotonic_ns() - self._config.epoch_ns)
        self._reply(connection, b"", 200 if ready else 503)

    def _metrics(self, connection: Connection, request: HttpRequest) -> None:
        self._player.advance()
        self._reply(connection, self._player.metrics.text(), 200, CONTENT_TYPE)

    def _log(self, connection: Connection, request: HttpRequest) -> None:
        dropped = {"x-log-dropped": str(self._journal.dropped)}
        connection.send_reply(self._journal.read(), 200, "application/x-ndjson", dropped)
        connection.reply_ended()

    def _reset_prefix_cache(self, connection: Connection, request: HttpRequest) -> None:
        self._json(connection, {"success": self._player.reset_prefix_cache()})

    def _models(self) -> dict[str, Any]:
        card = {
            "id": self._model,
            "object": "model",
            "created": self._started,
            "owned_by": "benchcard",
            "root": self._model,
            "parent": None,
            "max_model_len": self._config.max_model_len,
            "permission": [],
        }
        return {"object": "list", "data": [card]}

    def _server_info(self, request: HttpRequest) -> dict[str, Any]:
        """The resolved configuration, nested as vLLM nests its own, and what is the simulated engine's alone."""
        config = self._config
        info = {
            "model_config": {"model": self._model, "max_model_len": config.max_model_len},
            "cache_config": {
                "block_size": config.block_size,
                "enable_prefix_caching": config.prefix_caching,
                "kv_cache_memory_bytes": config.kv_cache_bytes,
                "num_gpu_blocks": config.num_blocks,
            },
            "scheduler_config": {
                "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens,
            },
            "simulated": {
                "version": version(),
                "costs": vars(config.costs),
                "speedup": config.speedup,
                "flags": config.flags(),
                "misbehave": vars(config.misbehave),
                "epoch_ns": config.epoch_ns,
                "pid": os.getpid(),
                "system_fingerprint": self._fingerprint,
            },
        }
        text = request.query.get("config_format", "text") != "json"
        return {"vllm_config": str(info) if text else info, "vllm_env": {}, "system_env": {}}

    def _json(self, connection: Connection, value: object) -> None:
        self._reply(connection, dumps(value))

    def _reply(self, connection: Connection, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        connection.send_reply(body, status, kind)
        connection.reply_ended()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `SystemUnderTestError` says that the port is taken, or what else is wrong."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(4096)
    except (OSError, OverflowError) as error:
        listener.close()
        raise SystemUnderTestError(f"cannot listen on {host}:{port}: {error}") from None
    return listener


def serve(config: EngineConfig, model: str, listener: socket.socket, log: Path | None = None) -> None:
    """Serve until SIGTERM or SIGINT. What is under way then is dropped."""
    uvloop.run(_serve(config, model, listener, log))


async def _serve(config: EngineConfig, model: str, listener: socket.socket, log: Path | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    application = SimulatedServer(config, model, Journal(log), loop)
    # A full collection would stop the clock for milliseconds: what exists by now stays, and little garbage is cyclic.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 1000)
    server = await loop.create_server(lambda: Connection(application), sock=listener)
    await stop.wait()
    server.close()
    application.close()
