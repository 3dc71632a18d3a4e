"""Build the HTTP request to a provider from its address, credentials, timeouts and body."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.llm.http.errors import RequestTarget
from asyncagents.llm.http.redact import redact_url, secrets_of
from asyncagents.llm.model import ChatRequest, ModelEvent

FIRST_SECONDS = 600.0
IDLE_SECONDS = 300.0
PING_SECONDS = 3600.0
"""A stream that sends only pings and no content is closed after this long."""


class Endpoint(Struct, frozen=True, kw_only=True):
    provider_id: str
    base_url: str
    api_key: Secret | None = None
    headers: dict[str, str] = {}
    first_seconds: float = FIRST_SECONDS
    """Timeout until the first event with content; 0 disables it."""
    idle_seconds: float = IDLE_SECONDS
    """Timeout between two chunks after that, pings included; 0 disables it."""
    body: dict[str, Any] = {}
    """Fields added to the body of every request to this provider."""

    def __repr__(self) -> str:
        """Omit headers, body fields and the URL's query, which may hold keys."""
        return f"Endpoint({self.provider_id!r}, {redact_url(self.base_url)!r})"


class WireReader(Protocol):
    """Converts events of a wire to model events; the flags describe the stream so far."""

    started: bool
    """An event has arrived."""
    has_content: bool
    """An event with content has arrived; the caller resets the flag."""
    finished: bool
    """The finish reason has arrived; only the usage may follow."""
    is_over: bool
    """The stream is over; later events are ignored."""
    failed: bool
    """A `StreamError` was among the events."""

    def read(self, payloads: list[bytes]) -> list[ModelEvent]: ...

    def end(self) -> list[ModelEvent]:
        """Return the final events after the end of the stream; none without a finish reason."""
        ...


class ProviderRequest(Struct, frozen=True, kw_only=True):
    url: str
    headers: dict[str, str]
    first_seconds: float
    idle_seconds: float
    target: RequestTarget
    write: Callable[[], dict[str, Any]]
    """Builds the body; called once per sending, so that no copy is kept."""

    def __repr__(self) -> str:
        """Omit the headers, which contain a key."""
        return f"ProviderRequest({self.target.url})"

    def check(self) -> None:
        """Raise `ValueError` for a header with a line end; the message has its name, never its value."""
        for name, value in self.headers.items():
            if any(mark in name + value for mark in "\r\n\0"):
                raise ValueError(f"the header {name!r} has a line end inside")

    def body(self) -> bytes:
        return msgspec.json.encode(self.write())


def build_request(
    endpoint: Endpoint,
    request: ChatRequest,
    url: str,
    *,
    headers: dict[str, str],
    write: Callable[[], dict[str, Any]],
) -> ProviderRequest:
    """Build a request; configured headers win over `headers`, those of the wire."""
    given = {name.lower(): value for name, value in endpoint.headers.items()}
    target = RequestTarget(
        provider_id=endpoint.provider_id,
        model_id=request.model.model_id,
        url=redact_url(url),
        has_key=endpoint.api_key is not None,
        secrets=secrets_of(endpoint.api_key, tuple(given.values()), endpoint.base_url),
    )
    sent = {"content-type": "application/json", "accept": "text/event-stream", **headers, **given}
    return ProviderRequest(
        url=url,
        headers=sent,
        first_seconds=endpoint.first_seconds,
        idle_seconds=endpoint.idle_seconds,
        target=target,
        write=write,
    )


def clean_key(secret: Secret) -> Secret:
    """Strip whitespace from a key: pasted keys and key files often end in a line end."""
    return Secret(secret.reveal().strip())


def join_url(base_url: str, path: str) -> str:
    """Append the path to the base URL, before the base's query."""
    base, mark, query = base_url.strip().partition("?")
    return base.rstrip("/") + path + mark + query


def merge_body(body: dict[str, Any], endpoint: Endpoint, request: ChatRequest) -> dict[str, Any]:
    """Merge the body with the endpoint's fields, then the request's; null removes a field."""
    whole = {**body, **endpoint.body, **request.options.body}
    return {name: value for name, value in whole.items() if value is not None}
