"""A server that gives away the key it is asked with: in errors, headers, streams, models, version and metrics."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote


class Echo(BaseHTTPRequestHandler):
    """GET: health, version, models, metrics. POST: one kind of answer after the other (`kinds`)."""

    protocol_version = "HTTP/1.1"
    kinds = ("body", "json", "basic", "object", "stream", "garbage", "event", "fine", "split", "status")
    count = 0
    version = "1.0"
    pause = 0.0

    def log_message(self, *args: Any) -> None:
        pass

    @property
    def key(self) -> str:
        return (self.headers.get("Authorization") or "Bearer none").removeprefix("Bearer ")

    def do_GET(self) -> None:
        key, path = self.key, self.path
        if path == "/version":
            self.answer(200, json.dumps({"version": self.version.replace("KEY", key), "api_key": key}))
        elif path == "/v1/models":
            model = {"id": "m", "max_model_len": 4096, "root": key, "token": key}
            self.answer(200, json.dumps({"object": "list", "data": [model, {"id": f"other-{key}"}]}))
        elif path == "/metrics":
            page = 'vllm:cache_config_info{block_size="16",note="KEY"} 1\nx_total{k="QUOTED"} 2\n'
            self.answer(200, page.replace("KEY", key).replace("QUOTED", quote(key)))
        elif path == "/server_info":
            self.answer(200, json.dumps({"vllm_config": {"api_key": [key], "note": f"key {key}"}}))
        elif path == "/health":
            self.answer(200, "")
        else:
            self.answer(404, f"no {path} for {key}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        kind = self.kinds[type(self).count % len(self.kinds)]
        type(self).count += 1
        time.sleep(self.pause)
        getattr(self, kind)(self.key)

    def answer(self, status: int, body: str, kind: str = "application/json", reason: str | None = None) -> None:
        self.send_response(status, reason)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.send_header("x-key", self.key)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client left: it has what it wants
            self.wfile.write(body.encode())

    def stream_of(self, *events: str) -> None:
        self.answer(200, "".join(f"data: {event}\n\n" for event in events), "text/event-stream")

    def body(self, key: str) -> None:
        self.answer(401, f"Incorrect API key provided: {key}. You sent Authorization: Bearer {key}", "text/plain")

    def json(self, key: str) -> None:
        self.answer(500, json.dumps({"error": {"message": f'"{key}" {quote(key, safe="")}'}, "key": key}))

    def basic(self, key: str) -> None:
        self.answer(403, base64.b64encode(f"user:{key}".encode()).decode() + key.encode().hex(), "text/plain")

    def object(self, key: str) -> None:
        self.answer(502, json.dumps([{"detail": {"headers": {"authorization": f"Bearer {key}"}}}]))

    def stream(self, key: str) -> None:
        self.stream_of(chunk("a"), json.dumps({"error": {"message": f"lost {key}", "code": 500}}))

    def garbage(self, key: str) -> None:
        self.stream_of(chunk("a"), f"{{no JSON {key}")

    def event(self, key: str) -> None:
        self.stream_of(chunk("a"), json.dumps({"object": "error", "message": key}))

    def fine(self, key: str) -> None:
        last = chunk("", finish=f"stop {key}", system_fingerprint=f"fp_{key}")
        self.stream_of(chunk("a"), chunk(key), last, "[DONE]")

    def split(self, key: str) -> None:
        """The key in two reads of the socket, in an error and in the text."""
        body = f"data: {chunk(key)}\n\n" + "data: " + json.dumps({"error": {"message": f"wrong {key}"}}) + "\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        middle = body.rindex(key) + len(key) // 2
        for piece in (body[:middle], body[middle:]):
            self.wfile.write(piece.encode())
            self.wfile.flush()
            time.sleep(0.05)

    def status(self, key: str) -> None:
        self.answer(400, "", reason=f"bad key {key}")


def chunk(text: str, finish: str | None = None, **more: Any) -> str:
    """A chunk of both endpoints at once."""
    choice = {"index": 0, "text": text, "delta": {"content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice], **more})


@contextmanager
def echo_server(**changes: Any) -> Iterator[int]:
    """The server, on a free port."""
    handler = type("Echo", (Echo,), {"count": 0, **changes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
