"""Crowds: however many connections programs without the token hold, who has it comes in."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.server.http.timeouts import Timeouts
from tests.support.http.client import Response
from tests.support.http.raw import RawConnection, Target, open_target
from tests.support.wait import wait_until

EVENTS, HEALTH, PENDING = "/v1/events", "/v1/health", "/async-tool/pending"
WEBHOOK = "/async-tool/webhook"
MANY = 16
SHARE = MANY // 4
TIMEOUTS = Timeouts(connections=MANY, header_seconds=600.0, body_seconds=600.0, idle_seconds=600)
"""Nothing makes room because of the time."""


@asynccontextmanager
async def _opened(at: Target, *requests: bytes) -> AsyncIterator[list[RawConnection]]:
    """A connection for each, that has sent it."""
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(await at.connect()) for _ in requests]
        for wire, request in zip(wires, requests, strict=True):
            await wire.send(request)
        yield wires


async def _crowd(at: Target, kind: str) -> list[bytes]:
    """Connections that stay, none with the token."""
    slow = at.build_request("POST", WEBHOOK, {"Content-Length": "1000"}, b"{")
    stream = at.build_request("GET", EVENTS)
    return {
        "streams": [stream] * SHARE + [b""] * (MANY - SHARE),
        "nothing said": [b""] * MANY,
        "half a head": [b"GET /v1/health HTTP/1.1\r\nHost: "] * MANY,
        "half a body": [slow] * MANY,
        "streams and bodies": [stream] * SHARE + [slow] * (MANY - SHARE),
        "kept": [at.build_request("GET", HEALTH)] * MANY,
    }[kind]


async def _until_full(at: Target, wires: list[RawConnection], requests: list[bytes]) -> None:
    """What is answered at all is answered by now."""
    whole = [
        wire
        for wire, sent in zip(wires, requests, strict=True)
        if sent.startswith(b"GET") and b"\r\n\r\n" in sent
    ]
    for wire in whole:
        assert (await wire.read_response()).status == 200
    await wait_until(lambda: len(at.buffered_bytes()) >= len(wires))  # the server accepts them


@pytest.mark.parametrize(
    "kind", ["streams", "nothing said", "half a head", "half a body", "streams and bodies", "kept"]
)
async def test_clients_without_the_token_never_block_a_client_that_has_it(tmp_path: Path, kind: str) -> None:
    async with open_target(tmp_path, timeouts=TIMEOUTS) as at:
        requests = await _crowd(at, kind)
        async with _opened(at, *requests) as wires:
            await _until_full(at, wires, requests)
            stream = at.build_request("GET", EVENTS, at.bearer)
            async with _opened(at, *[stream] * MANY) as known:
                heard = [await wire.read_response() for wire in known]
            again = await at.request("GET", PENDING, at.bearer)

    assert [each.status for each in heard] == [200] * MANY
    assert again.status == 200


async def test_streams_without_the_token_have_a_quarter_of_the_connections(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=TIMEOUTS) as at, AsyncExitStack() as stack:
        wires = await stack.enter_async_context(_opened(at, *[at.build_request("GET", EVENTS)] * SHARE))
        taken = [(await wire.read_response()).status for wire in wires]
        refused = await at.request("GET", EVENTS)
        looked = await at.request("GET", "/v1/tasks")
        async with _opened(at, at.build_request("GET", EVENTS, at.bearer)) as (known,):
            let_in = await known.read_response()
        wires[0].reset()
        freed = await _stream_until(at, 200)

    assert taken == [200] * SHARE
    assert refused.status == 429
    assert refused.error_name == "TooManyRequestsError"
    assert int(refused.headers["retry-after"]) > 0
    assert "token" in refused.body.decode()
    assert looked.status == 200
    assert let_in.status == 200
    assert freed.status == 200


async def test_a_stream_frees_its_place_after_head_a_refusal_or_a_disconnect(tmp_path: Path) -> None:
    """Looked at with HEAD, refused by what they ask, or hung up on."""
    async with open_target(tmp_path, timeouts=TIMEOUTS) as at:
        for _ in range(2 * SHARE):
            assert (await at.request("HEAD", EVENTS)).status == 200
            assert (await at.request("GET", f"{EVENTS}?after=nonsense")).status == 400
            assert (await _stream_until(at, 200)).status == 200


@pytest.mark.parametrize("silent_seconds", [0.0, 600.0])
async def test_a_full_server_closes_the_least_important_connection_first(
    tmp_path: Path, silent_seconds: float
) -> None:
    """Never who has the token. Who says nothing has some time to speak."""
    timeouts = replace(TIMEOUTS, connections=5, silent_seconds=silent_seconds)
    async with open_target(tmp_path, timeouts=timeouts) as at, AsyncExitStack() as stack:
        stream, known = at.build_request("GET", EVENTS), at.build_request("GET", EVENTS, at.bearer)
        body = at.build_request("POST", WEBHOOK, {"Content-Length": "1000"}, b"{")
        health = at.build_request("GET", HEALTH)
        wires = await stack.enter_async_context(_opened(at, known, b"", body, stream, health))
        own, silent, slow, listener, idle = wires
        for wire in (own, listener, idle):
            assert (await wire.read_response()).status == 200
        for wire in (idle, *((listener, silent) if silent_seconds else (silent, listener)), slow):
            (late,) = await stack.enter_async_context(_opened(at, known))
            assert (await late.read_response()).status == 200
            await wire.read_until_closed()
            wires.append(late)
        async with await at.connect() as full:
            refused = await full.read_response()
        alive = [not wire.reader.at_eof() for wire in (own, *wires[5:])]
        wires[-1].reset()
        await wait_until(lambda: len(at.buffered_bytes()) < 5)

    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert alive == [True] * 5


async def _stream_until(at: Target, status: int) -> Response:
    heard, tries = Response(), 200
    while heard.status != status and tries:
        heard, tries = await at.request("GET", EVENTS), tries - 1
    return heard
