"""Convert a reply to an HTTP answer on either wire."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from asyncagents.testing import provider_anthropic as anthropic
from asyncagents.testing import provider_openai as openai
from asyncagents.testing.provider_check import anthropic_refusal, openai_refusal
from asyncagents.testing.provider_reply import Reply, Stamp

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


class ProviderWire(Struct, frozen=True):
    name: Literal["openai", "anthropic"]
    stream: Callable[[Reply, Stamp], list[bytes]]
    full_body: Callable[[Reply, Stamp], bytes]
    error: Callable[[Reply, Stamp], bytes]
    models: Callable[[tuple[str, ...]], bytes]
    ping: bytes
    request_id: str
    key: Callable[[Mapping[str, str]], str]
    """Returns the key in the headers."""
    refusal: Callable[[dict[str, Any], Mapping[str, str]], str | None]
    """Returns why the real provider would refuse a request, or None."""


class HttpAnswer(Struct, frozen=True):
    """An HTTP answer; `ping` may be sent while a stream is idle."""

    status: int
    headers: dict[str, str]
    writes: list[bytes]
    ping: bytes


def _bearer(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


OPENAI = ProviderWire(
    name="openai",
    stream=openai.openai_bytes,
    full_body=openai.openai_json,
    error=openai.openai_error,
    models=openai.openai_models,
    ping=openai.PING,
    request_id=openai.REQUEST_ID,
    key=_bearer,
    refusal=openai_refusal,
)
ANTHROPIC = ProviderWire(
    name="anthropic",
    stream=anthropic.anthropic_bytes,
    full_body=anthropic.anthropic_json,
    error=anthropic.anthropic_error,
    models=anthropic.anthropic_models,
    ping=anthropic.PING,
    request_id=anthropic.REQUEST_ID,
    key=lambda headers: headers.get("x-api-key") or _bearer(headers),
    refusal=anthropic_refusal,
)


def build_answer(wire: ProviderWire, reply: Reply, body: dict[str, Any], id: str) -> HttpAnswer:
    """Build the answer; an error inside a stream becomes a 500 if the answer is not streamed."""
    options = body.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    stamp = Stamp(id=id, model=str(body.get("model")), created=int(time.time()), usage=usage)
    if reply.status == 200 and body.get("stream") is True:
        return _make_answer(wire, reply, stamp, events=wire.stream(reply, stamp))
    if reply.status == 200 and not reply.error_in_stream:
        return _make_answer(wire, reply, stamp, whole=wire.full_body(reply, stamp))
    return _make_answer(wire, reply, stamp, whole=wire.error(reply, stamp))


def _make_answer(
    wire: ProviderWire, reply: Reply, stamp: Stamp, *, events: list[bytes] | None = None, whole: bytes = b""
) -> HttpAnswer:
    streamed = events is not None
    writes = [whole] if events is None else events
    if reply.body is not None:
        writes = [reply.body]
    status = 500 if reply.status == 200 and reply.error_in_stream and not streamed else reply.status
    headers = {"content-type": EVENTS if streamed else JSON, wire.request_id: f"req_{stamp.id}"}
    if streamed:
        headers["cache-control"] = "no-cache"
    else:
        headers["content-length"] = str(sum(map(len, writes)))
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    return HttpAnswer(status, headers, writes, wire.ping if streamed else b"")
