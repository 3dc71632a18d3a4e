"""One request to a provider before it is sent: where to, with which headers, and what it says."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.llm.endpoint import Endpoint
from asyncagents.llm.fault import Target
from asyncagents.llm.hidden import hidden, shown
from asyncagents.llm.model import ModelEvent, Request


class Reader(Protocol):
    """Reads the events of a wire and says ours. Each flag is about the stream so far."""

    begun: bool
    """Any event came at all."""
    heard: bool
    """Something of meaning came; whoever looks sets it back."""
    finished: bool
    """The provider said why it ended; only its last words are missing."""
    over: bool
    """Nothing more will come, or nothing more matters."""
    failed: bool
    """A `StreamError` was among the events."""

    def read(self, payloads: list[bytes]) -> list[ModelEvent]: ...

    def end(self) -> list[ModelEvent]:
        """What is left to say once the stream has ended; nothing, if it never said why."""
        ...


class Post(Struct, frozen=True, kw_only=True):
    url: str
    headers: dict[str, str]
    first_seconds: float
    idle_seconds: float
    target: Target
    write: Callable[[], dict[str, Any]]
    """Makes the body; called once, so that no copy outlives the sending."""

    def __repr__(self) -> str:
        """Without the headers: a key is among them."""
        return f"Post({self.target.url})"

    def check(self) -> None:
        """Before a connection is made for nothing; says the name of a header, never its value."""
        for name, value in self.headers.items():
            if any(mark in name + value for mark in "\r\n\0"):
                raise ValueError(f"the header {name!r} has a line end inside")

    def body(self) -> bytes:
        return msgspec.json.encode(self.write())


def post(
    endpoint: Endpoint,
    request: Request,
    url: str,
    *,
    headers: dict[str, str],
    write: Callable[[], dict[str, Any]],
) -> Post:
    """`headers` are the wire's own; the operator's win over them."""
    given = {name.lower(): value for name, value in endpoint.headers.items()}
    target = Target(
        provider_id=endpoint.provider_id,
        model_id=request.model.model_id,
        url=shown(url),
        has_key=endpoint.api_key is not None,
        hidden=hidden(endpoint.api_key, tuple(given.values()), endpoint.base_url),
    )
    sent = {"content-type": "application/json", "accept": "text/event-stream", **headers, **given}
    return Post(
        url=url,
        headers=sent,
        first_seconds=endpoint.first_seconds,
        idle_seconds=endpoint.idle_seconds,
        target=target,
        write=write,
    )


def key(secret: Secret) -> Secret:
    """Keys are pasted and read from files; a line end comes along easily."""
    return Secret(secret.reveal().strip())


def at(base_url: str, path: str) -> str:
    """The path below the base; a query of the base stays behind it."""
    base, mark, query = base_url.strip().partition("?")
    return base.rstrip("/") + path + mark + query


def merged(body: dict[str, Any], endpoint: Endpoint, request: Request) -> dict[str, Any]:
    """The operator's fields over ours, the agent's over both; a null takes a field away."""
    whole = {**body, **endpoint.body, **request.options.body}
    return {name: value for name, value in whole.items() if value is not None}
