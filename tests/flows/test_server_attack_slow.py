"""Slow ones, stalled ones and floods: each is cut off in its time, and nobody else waits for them."""

import asyncio
import gc
import resource
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents import ScriptedModel, say
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.llm.scripted import Pause, Script
from asyncagents.server.application import CHUNK_BYTES
from asyncagents.server.http.connection import HEADER_BYTES, MOST_HEADERS, MOST_PIPELINED_BYTES
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.route import ServerContext
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.asgi import TOKEN, build_application
from tests.support.http.client import Response
from tests.support.http.raw import SHORT_TIMEOUTS, RawConnection, Target, open_target
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE, wait_until

HEALTH = "/v1/health"
RESULT, WEBHOOK = "/async-tool/result", "/async-tool/webhook"
JSON = {"Content-Type": "application/json"}
MEGABYTE = 1024 * 1024
LENGTH = 12 * MEGABYTE
FOREVER = 10 * PATIENCE
LONG: Script = {"Long": [[say("x" * LENGTH)]]}


async def _drip(wire: RawConnection, data: bytes) -> Response:
    """Byte by byte, for as long as it is taken; then what was said to it."""
    closed = asyncio.Event()

    async def sender() -> None:
        for byte in data:
            await wire.send(bytes([byte]))
            await asyncio.sleep(0.02)  # its slowness is the attack
            if closed.is_set():
                return

    async with asyncio.TaskGroup() as group:
        dripping = group.create_task(sender())
        heard = await wire.read_response()
        await wire.read_until_closed()
        closed.set()
        dripping.cancel()
    return heard


async def _until_gone(wire: RawConnection) -> None:
    """It reads nothing, so only what it sends tells."""

    async def is_closing() -> bool:
        await wire.send(b"\r\n")
        return wire.writer.transport.is_closing()

    await wait_until(is_closing)


async def test_a_request_head_that_arrives_byte_by_byte_times_out(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect() as wire:
        heard = await _drip(wire, b"GET /v1/health HTTP/1.1\r\n" + b"X-A: b\r\n" * 1000)

    assert heard.status == 408
    assert heard.error_name == "RequestTimeoutError"


async def test_a_slow_head_on_a_kept_connection_times_out(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect() as wire:
        await wire.send(at.build_request("GET", HEALTH))
        assert (await wire.read_response()).status == 200
        heard = await _drip(wire, b"GET /v1/health HTTP/1.1\r\n" + b"X-A: b\r\n" * 1000)

    assert heard.status == 408


@pytest.mark.parametrize("first", [b"", b"\r\n", b"\r\n\r\n\r\n", b"G", b"GET /v1/health HTTP/1.1\r\nHost"])
async def test_a_connection_that_sends_no_whole_head_is_closed(tmp_path: Path, first: bytes) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at:
        async with await at.connect() as fresh:
            await fresh.send(first)
            await fresh.read_until_closed()
        async with await at.connect() as kept:
            await kept.send(at.build_request("GET", HEALTH))
            assert (await kept.read_response()).status == 200
            await kept.send(first)
            await kept.read_until_closed()


async def test_a_body_that_arrives_byte_by_byte_times_out(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect() as wire:
        await wire.send(
            at.build_request("POST", RESULT, {**at.bearer, **JSON, "Content-Length": "100000"}, b"{")
        )
        heard = await _drip(wire, b" " * 10_000)

    assert heard.status == 408
    assert heard.headers["connection"] == "close"


async def test_chunks_that_arrive_byte_by_byte_time_out(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect() as wire:
        await wire.send(
            at.build_request("POST", RESULT, {**at.bearer, **JSON, "Transfer-Encoding": "chunked"}, b"")
        )
        heard = await _drip(wire, b"1\r\n{\r\n" * 10_000)

    assert heard.status == 408


async def test_an_unread_body_closes_the_connection(tmp_path: Path) -> None:
    """It is refused for another reason, answered without it, or for another route."""
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at:
        for path in (HEALTH, "/nowhere", RESULT, "/v1/tasks"):
            for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
                async with await at.connect() as wire:
                    await wire.send(at.build_request(method, path, {"Content-Length": "100000"}, b"{"))
                    heard = await wire.read_response()
                    await wire.read_until_closed()
                assert heard.headers["connection"] == "close", (method, path, heard)


async def test_a_request_with_expect_continue_is_refused_before_its_body(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at, await at.connect() as wire:
        head = {**JSON, "Expect": "100-continue", "Content-Length": "1000"}
        await wire.send(at.build_request("POST", RESULT, head))
        refused = await wire.read_response()
        await wire.read_until_closed()
        async with await at.connect() as other:
            await other.send(at.build_request("POST", RESULT, {**head, **at.bearer}))
            told = await other.read_response()

    assert refused.status == 401
    assert told.status == 100


async def test_a_connection_stays_open_after_a_refusal_if_the_body_was_sent_whole(
    tmp_path: Path,
) -> None:
    async with open_target(tmp_path) as at, await at.connect() as wire:
        for _ in range(2):
            await wire.send(at.build_request("POST", RESULT, JSON, b" " * 3 * MEGABYTE))
            heard = await wire.read_response()
            assert heard.status == 401
            assert heard.headers.get("connection") is None


async def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect() as wire:
        await wire.send(at.build_request("GET", HEALTH))
        assert (await wire.read_response()).status == 200
        assert await wire.read_until_closed() == b""


async def test_pipelined_requests_after_the_first_are_dropped_with_a_close(tmp_path: Path) -> None:
    """A thousand requests in a row: one is answered, and it was the last."""
    async with open_target(tmp_path) as at, await at.connect() as wire:
        await wire.send(at.build_request("GET", HEALTH) * 1000)
        heard = await wire.read_response()
        rest = await wire.read_until_closed()

    assert heard.status == 200
    assert heard.headers["connection"] == "close"
    assert rest == b""


async def test_a_flood_of_pipelined_requests_behind_a_stream_is_cut_off(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at, await at.connect() as wire:
        await wire.send(at.build_request("GET", "/v1/events"))
        assert (await wire.read_response()).status == 200
        many = at.build_request("GET", HEALTH) * 1000
        async with asyncio.timeout(PATIENCE):
            while not wire.writer.transport.is_closing():
                await wire.send(many)


async def test_a_disconnect_behind_a_pipelined_stream_leaves_nothing_running(tmp_path: Path) -> None:
    """What is asked after a stream was begun must not hide from the stream that its listener is gone."""
    async with open_target(tmp_path) as at:
        before = len(asyncio.all_tasks())
        for _ in range(20):
            async with await at.connect() as wire:
                await wire.send(at.build_request("GET", "/v1/events") + at.build_request("GET", HEALTH))
                assert (await wire.read_response()).status == 200
                await wire.send(at.build_request("GET", HEALTH))
                wire.reset()
        await wait_until(lambda: len(asyncio.all_tasks()) <= before + 2)  # they end by themselves


async def test_a_disconnect_removes_a_heavy_read_from_the_queue(tmp_path: Path) -> None:
    """No token is wanted for that: who asks again before he is answered had the board look for ever."""
    async with open_target(tmp_path) as at:
        (server,) = [
            each
            for each in gc.get_objects()
            if isinstance(each, ServerContext) and each.runtime is at.runtime
        ]
        async with server.heavy_reads:  # somebody looks at much
            before = len(asyncio.all_tasks())
            for _ in range(20):
                async with await at.connect() as wire:
                    await wire.send(at.build_request("GET", "/v1/stats"))
                    await wait_until(lambda: len(asyncio.all_tasks()) > before)
                    wire.reset()
            await wait_until(lambda: len(asyncio.all_tasks()) <= before + 2)  # they end by themselves
        answered = await at.request("GET", "/v1/stats")

    assert answered.status == 200


async def test_a_disconnect_during_a_wait_for_an_answer_keeps_only_the_prompt(tmp_path: Path) -> None:
    """A turn may take days, and clients that give up after a minute ask again."""
    body = b'{"parts": [{"type": "text", "text": "Slow"}]}'
    async with open_target(tmp_path, script={"Slow": [[Pause(3600), say("Late.")]]}) as at:
        session = await at.runtime.create_session(directory="/")
        head = {**at.bearer, **JSON, "Idempotency-Key": "k"}
        await at.request("POST", f"/session/{session.id}/prompt_async", head, body)
        before = len(asyncio.all_tasks())
        for _ in range(20):
            async with await at.connect() as wire:
                await wire.send(at.build_request("POST", f"/session/{session.id}/message", head, body))
                await wait_until(lambda: len(asyncio.all_tasks()) > before)
                wire.reset()
        await wait_until(lambda: len(asyncio.all_tasks()) <= before + 2)  # they end by themselves
        kept = await at.runtime.messages(session.id)
        await at.runtime.abort(session.id)

    assert [entry.text for entry in kept if isinstance(entry.info, UserMessage)] == ["Slow"]


async def test_a_body_of_300_megabytes_in_chunks_is_cut_off_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    chunk = b"100000\r\n" + b" " * MEGABYTE + b"\r\n"
    async with open_target(tmp_path) as at:
        before, sent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
        async with await at.connect() as wire:
            head = {**at.bearer, **JSON, "Transfer-Encoding": "chunked"}
            await wire.send(at.build_request("POST", RESULT, head, b""))

            async def flood() -> None:
                nonlocal sent
                while sent < 300 and not wire.writer.is_closing():
                    await wire.send(chunk)
                    sent += 1

            async with asyncio.TaskGroup() as group:
                flooding = group.create_task(flood())
                heard = await wire.read_response()
                await wire.read_until_closed()
                flooding.cancel()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024

    assert heard.status in {413, 0}  # a sender that goes on sending may lose the answer
    assert sent < 300
    assert grown < 60, f"{grown} MiB"


@pytest.mark.parametrize(("size", "path"), [(10 * MEGABYTE + 1, RESULT), (10 * MEGABYTE + 1, WEBHOOK)])
async def test_a_body_that_is_declared_or_sent_too_large_is_refused_with_413(
    tmp_path: Path, size: int, path: str
) -> None:
    async with open_target(tmp_path) as at:
        said = await at.request("POST", path, {**at.bearer, **JSON, "Content-Length": str(size)}, b"")
        sent = await at.request("POST", path, {**at.bearer, **JSON}, b" " * size)
        absurd = await at.request("POST", path, {**at.bearer, **JSON, "Content-Length": "9" * 18}, b"")

    assert [each.status for each in (said, sent, absurd)] == [413, 413, 413]
    assert sent.error_name == "PayloadTooLargeError"


async def test_unverified_bodies_share_a_limit_that_blocks_no_other_request(
    tmp_path: Path,
) -> None:
    """Who sent them is known when all of a body has come: hundreds of 10 MiB would be kept until then."""
    large, timeouts = b" " * (MEGABYTE // 2), Timeouts(unverified_bytes=MEGABYTE)

    async def webhook_until(at: Target, status: int) -> Response:
        heard, tries = Response(), 100
        while heard.status != status and tries > 0:
            heard, tries = await at.request("POST", WEBHOOK, {}, large), tries - 1
        return heard

    async with open_target(tmp_path, timeouts=timeouts) as at:
        async with await at.connect() as slow:
            head = at.build_request("POST", WEBHOOK, {"Content-Length": str(2 * MEGABYTE)})
            await slow.send(head + b" " * MEGABYTE)
            refused = await webhook_until(at, 429)
            small = await at.request("POST", WEBHOOK, {}, b" " * 60_000)
            known = await at.request("POST", RESULT, {**at.bearer, **JSON}, large)
        freed = await webhook_until(at, 401)

    assert refused.status == 429
    assert refused.headers.get("retry-after") == "1"
    assert small.status == 401
    assert known.status == 400
    assert freed.status == 401


async def _long_answer(at: Target) -> bytes:
    """A request for much more than the machines between us hold."""
    session = await at.runtime.create_session(directory="/")
    await at.runtime.prompt(session.id, "Long")
    return at.build_request("GET", f"/session/{session.id}/message", at.bearer)


async def test_an_unread_long_response_is_cut_off_and_buffered_only_in_part(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS, script=LONG) as at:
        request = await _long_answer(at)
        async with await at.connect(buffer=4096) as wire:
            wire.pause()
            await wire.send(request)
            await _until_gone(wire)
        async with await at.connect(buffer=4096) as other:
            other.pause()
            await other.send(request)
            await wait_until(lambda: max(at.buffered_bytes(), default=0) > 0)
            held = at.buffered_bytes()

    assert held
    assert max(held) < 4 * CHUNK_BYTES


async def test_a_slow_reader_gets_the_whole_response(tmp_path: Path) -> None:
    """Each piece in less than a stall would take, all of them in much more."""
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS, script=LONG) as at:
        request = await _long_answer(at)
        async with await at.connect(buffer=65536) as wire:
            await wire.send(request)
            size = 0
            async with asyncio.timeout(PATIENCE):
                while size < LENGTH:
                    piece = await wire.reader.read(2**18)
                    assert piece
                    size += len(piece)
                    await asyncio.sleep(0.02)  # its slowness is what is tried


@pytest.mark.parametrize("path", ["/v1/sessions/{id}/events", "/event?directory=/", "/global/event"])
async def test_an_unread_stream_is_cut_off_and_other_streams_are_complete(tmp_path: Path, path: str) -> None:
    timeouts = replace(SHORT_TIMEOUTS, stall_seconds=2.0)  # to encode it all takes its time
    async with open_target(tmp_path, timeouts=timeouts, script=LONG) as at:
        session = await at.runtime.create_session(directory="/")
        async with await at.connect(buffer=4096) as deaf, await at.connect() as good:
            for wire in (deaf, good):
                await wire.send(at.build_request("GET", path.format(id=session.id), at.bearer))
                assert (await wire.read_response()).status == 200
            deaf.pause()
            async with asyncio.TaskGroup() as group:
                hearing = group.create_task(good.read_until(b'"type":"idle"'))
                await at.runtime.prompt(session.id, "Long")
            await _until_gone(deaf)

    assert hearing.result().count(b"x") >= LENGTH


async def test_a_client_that_reads_none_of_many_responses_is_cut_off(tmp_path: Path) -> None:
    """Each fits into what the machines between us hold; together they do not."""
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at, await at.connect(buffer=4096) as wire:
        wire.pause()
        for _ in range(10_000):
            if wire.writer.transport.is_closing():
                break
            await wire.send(at.build_request("GET", "/doc"))
            await asyncio.sleep(0)
        await _until_gone(wire)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /v1/health?" + b"a" * HEADER_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * HEADER_BYTES + b"\r\n\r\n", 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * MOST_HEADERS + b"\r\n", 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X" * 1_000_000, 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 5_000_000, 431),
        (b"GET /" + b"a" * 5_000_000, 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (MOST_HEADERS - 1) + b"\r\n", 200),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60_000 + b"\r\n\r\n", 200),
    ],
)
async def test_a_request_head_that_is_too_large_is_refused(tmp_path: Path, raw: bytes, status: int) -> None:
    async with open_target(tmp_path) as at:
        heard = await at.send_raw(raw)

    assert heard.status in {status, 0 if len(raw) > 200_000 else status}
    if heard.status == 431:
        assert heard.error_name == "HeaderFieldsTooLargeError"
        assert heard.headers["connection"] == "close"


@pytest.mark.parametrize(
    "endless",
    [b"0\r\nX: " + b"a" * 1000, b"0\r\n" + b"X: y\r\n" * 200, b"1;x=" + b"a" * 1000],
    ids=["a trailer", "trailers", "an extension"],
)
async def test_endless_trailers_and_chunk_extensions_are_cut_off(tmp_path: Path, endless: bytes) -> None:
    async with open_target(tmp_path) as at, await at.connect() as wire:
        head = {**at.bearer, **JSON, "Transfer-Encoding": "chunked"}
        await wire.send(at.build_request("POST", RESULT, head, endless))
        more = endless[-1000:] if endless.endswith(b"a" * 1000) else b"X: y\r\n" * 200

        async def flood() -> None:
            for _ in range(2 * MOST_PIPELINED_BYTES // 1000):
                await wire.send(more)

        async with asyncio.TaskGroup() as group:
            flooding = group.create_task(flood())
            await wire.read_until_closed()
            flooding.cancel()


async def test_a_trailer_does_not_count_as_a_header(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        head = {**JSON, "Transfer-Encoding": "chunked"}
        trailer = f"Authorization: Bearer {at.token}\r\n".encode()
        heard = await at.request("POST", RESULT, head, b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n")

    assert heard.status == 401


async def test_a_connection_over_the_limit_is_refused_unless_another_is_idle(tmp_path: Path) -> None:
    async with open_target(tmp_path, timeouts=Timeouts(connections=4)) as at:
        busy = [await at.connect() for _ in range(4)]
        for wire in busy:
            await wire.send(at.build_request("GET", "/v1/events", at.bearer))
            assert (await wire.read_response()).status == 200
        async with await at.connect() as late:
            refused = await late.read_response()
        await busy[0].__aexit__()
        kept = await at.connect()
        await kept.send(at.build_request("GET", HEALTH))
        served = await kept.read_response()
        in_its_place = await at.request("GET", HEALTH)
        gone = await kept.read_until_closed()
        for wire in (*busy, kept):
            await wire.__aexit__()
        await wait_until(at.is_healthy)  # once the others are gone

    assert refused.status == 503
    assert refused.error_name == "ServiceUnavailableError"
    assert served.status == 200
    assert in_its_place.status == 200
    assert gone == b""


async def test_fifty_slow_connections_time_out_without_delaying_others(tmp_path: Path) -> None:
    """The attack of `benchmarks`, with 500 of them, in small."""
    async with open_target(tmp_path, timeouts=SHORT_TIMEOUTS) as at:
        wires = [await at.connect() for _ in range(50)]
        for number, wire in enumerate(wires):
            await wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"[: number + 5])
        well = [await at.is_healthy() for _ in range(20)]
        said = [await wire.read_until_closed() for wire in wires]
        for wire in wires:
            await wire.__aexit__()

    assert all(well)
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in said)


async def test_a_stop_does_not_wait_for_streams_stalled_readers_or_slow_senders(
    tmp_path: Path,
) -> None:
    """The streams end, and the rest is cut off, though each might take longer than this test."""
    wires: list[RawConnection] = []
    patient = Timeouts(header_seconds=FOREVER, body_seconds=FOREVER, stall_seconds=FOREVER)
    options = ServerOptions(port=0, timeouts=patient)
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime, asyncio.timeout(3 * PATIENCE):
        async with open_server(runtime, tmp_path, options, directory=tmp_path) as listing:
            at = Target(runtime, listing)
            for request in (
                at.build_request("GET", "/v1/events"),
                at.build_request("POST", RESULT, {**at.bearer, **JSON, "Content-Length": "1000"}, b"{"),
                b"GET /v1/health HTTP/1.1\r\n",
                b"",
            ):
                wires.append(await at.connect())
                await wires[-1].send(request)
            assert (await wires[0].read_response()).status == 200
            stalled = await at.connect(buffer=4096)
            stalled.pause()
            await stalled.send(at.build_request("GET", "/doc"))
        for wire in wires:
            await wire.read_until_closed()
            await wire.__aexit__()
        await stalled.__aexit__()

    with pytest.raises(ConnectionRefusedError):
        await at.connect()


async def test_a_slow_request_during_a_stop_is_refused_with_503(
    tmp_path: Path,
) -> None:
    """A kept connection is closed a moment after the stop began."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("the body never comes")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "raw_path": RESULT.encode(),
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1:5165"),
            (b"authorization", f"Bearer {TOKEN}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"1000"),
        ],
        "client": ("127.0.0.1", 50_000),
    }
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime, asyncio.timeout(PATIENCE):
        app = build_application(runtime, timeouts=Timeouts(stop_seconds=0.01, body_seconds=FOREVER))
        app.stop()
        await app(scope, receive, send)

    assert sent[0]["status"] == 503
