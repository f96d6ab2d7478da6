"""Questions to a server over HTTP, off the measured path: is it up, what is it, what do its metrics say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

import httpx

from ...schema.digest import canonical_json
from ...schema.errors import SystemUnderTestError
from ..secrets import redactor


@dataclass(frozen=True)
class Endpoint:
    """A server as the probes see it. `url` is the API base (…/v1); `metrics` its Prometheus page, if known."""

    url: str
    metrics: str | None
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def root(self) -> str:
        """The server's root, where vLLM has /health and /version."""
        return self.url.removesuffix("/v1")


#: what ends the name of a sample
_NAME = re.compile(r"[{\s]")
#: how long a document may take that warms a cache, s
_GENERATE_WITHIN_S = 600.0


class Probe:
    """A short-lived client for one server. Whatever it hands on of an answer is without secrets."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._http = httpx.Client(headers=endpoint.headers, timeout=10.0, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def healthy(self) -> bool:
        """Whether /health answers 200."""
        try:
            return self._http.get(self.endpoint.root + "/health", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    def json(self, url: str, within: float = 10.0) -> Any | None:
        """A JSON document, or None where the server has none, or gives none within so many seconds."""
        try:
            reply = self._http.get(url, timeout=within)
            return redactor().value(reply.json()) if reply.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    def models(self) -> list[dict[str, Any]]:
        """The models that the server lists. Raises SystemUnderTestError if it does not answer with a list."""
        url = self.endpoint.url + "/models"
        try:
            reply = self._http.get(url)
        except httpx.HTTPError as error:
            raise SystemUnderTestError(f"{url}: no answer ({type(error).__name__}); is the server running?") from None
        if reply.status_code in (401, 403):
            raise SystemUnderTestError(f"{url}: HTTP {reply.status_code}; the server refused the key, or wants one")
        try:
            models = redactor().value(reply.json()["data"])
            return [model for model in models if isinstance(model, dict)]
        except (ValueError, KeyError, TypeError):
            raise SystemUnderTestError(
                f"{url}: HTTP {reply.status_code} and no list of models; wanted an OpenAI-compatible API"
            ) from None

    def require_endpoint(self, endpoint: str) -> None:
        """Refuse a server that does not have the endpoint at all (an empty request is answered 404 or 405)."""
        url = self.endpoint.url + ("/chat/completions" if endpoint == "chat" else "/completions")
        try:
            status = self._http.post(url, json={}).status_code
        except httpx.HTTPError as error:
            raise SystemUnderTestError(f"{url}: no answer ({type(error).__name__})") from None
        if status in (404, 405):
            raise SystemUnderTestError(f"{url}: HTTP {status}; this server has no such endpoint. Check the URL's path")

    def ask(self, endpoint: str, body: bytes) -> Any | None:
        """The JSON reply to one request that is not streamed, off the measured path; None where there is none."""
        url = self.endpoint.url + ("/chat/completions" if endpoint == "chat" else "/completions")
        headers = {"content-type": "application/json"}
        try:
            reply = self._http.post(url, content=body, headers=headers, timeout=60.0)
            return redactor().value(reply.json()) if reply.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    def generate(self, endpoint: str, body: bytes) -> None:
        """Send one request that is not streamed, off the measured path. Raises SystemUnderTestError if it fails."""
        url = self.endpoint.url + ("/chat/completions" if endpoint == "chat" else "/completions")
        headers = {"content-type": "application/json"}
        try:
            reply = self._http.post(url, content=body, headers=headers, timeout=_GENERATE_WITHIN_S)
        except httpx.HTTPError as error:
            raise SystemUnderTestError(f"{url}: no answer ({type(error).__name__})") from None
        if reply.status_code != 200:
            raise SystemUnderTestError(f"{url}: HTTP {reply.status_code} to a document that should warm the cache")

    def tokenize(self, body: dict[str, Any]) -> int | str:
        """How many tokens vLLM's /tokenize counts in a prompt; or, in words, why the server does not say."""
        url = self.endpoint.root + "/tokenize"
        try:
            reply = self._http.post(url, json=body)
            count = reply.json().get("count") if reply.status_code == 200 else None
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            return f"/tokenize gave no answer ({type(error).__name__})"
        if reply.status_code in (404, 405, 501):
            return "the server has no /tokenize"
        if not isinstance(count, int) or isinstance(count, bool):
            return f"/tokenize answered HTTP {reply.status_code} and no count"
        return count

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache; the body must say that it worked (vLLM answers 200 also when it did not)."""
        url = self.endpoint.root + "/reset_prefix_cache"
        for _ in range(20):
            try:
                reply = self._http.post(url)
            except httpx.HTTPError as error:
                raise SystemUnderTestError(f"{url}: no answer ({type(error).__name__})") from None
            if reply.status_code != 200:
                raise SystemUnderTestError(
                    f"{url}: HTTP {reply.status_code}; cache_state: reset needs vLLM with VLLM_SERVER_DEV_MODE=1"
                )
            try:
                if reply.json().get("success") is not False:
                    return
            except ValueError:
                return
            time.sleep(0.25)
        raise SystemUnderTestError(f"{url}: the cache was not reset: blocks stayed in use for 5 s")

    def metrics(self) -> list[tuple[str, str, float]]:
        """(name, labels as canonical JSON, value) of every sample on the metrics page; empty where there is none."""
        if self.endpoint.metrics is None:
            return []
        try:
            reply = self._http.get(self.endpoint.metrics)
        except httpx.HTTPError:
            return []
        return parse_metrics(reply.text) if reply.status_code == 200 else []

    def cache_config(self) -> dict[str, str]:
        """The labels of vLLM's cache_config_info: every cache setting of the running server."""
        for name, labels, _ in self.metrics():
            if name == "vllm:cache_config_info":
                return {k: str(v) for k, v in json.loads(labels).items()}
        return {}


def parse_metrics(text: str, keep: Container[str] | None = None) -> list[tuple[str, str, float]]:
    """(name, labels as canonical JSON, value) of every sample on a metrics page, or of those in `keep`, without
    secrets; empty where it is none."""
    from prometheus_client.parser import text_string_to_metric_families

    if keep is not None:
        lines = (line for line in text.splitlines() if _NAME.split(line, maxsplit=1)[0] in keep)
        text = "\n".join(lines) + "\n"
    clean: Callable[[Any], Any] = redactor().value if redactor().holds_secret(text) else lambda value: value
    try:
        return [
            (clean(sample.name), canonical_json(clean(sample.labels)).decode(), float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except ValueError:
        return []
