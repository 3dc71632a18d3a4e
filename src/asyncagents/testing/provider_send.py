"""Send an answer to the client with its delays, and cut it or hang where the reply says."""

import asyncio

from aiohttp import web

from asyncagents.testing.provider_reply import Reply
from asyncagents.testing.provider_wire import HttpAnswer


async def send_answer(
    request: web.Request, response: web.StreamResponse, answer: HttpAnswer, reply: Reply
) -> None:
    """Send the answer; returns when it is sent or cut as the reply says."""
    stop = reply.cut_at if reply.hang_at is None else reply.hang_at
    sent = b""
    if stop is None or stop >= 0:
        response.set_status(answer.status)
        response.headers.update(answer.headers)
        await response.prepare(request)
        await asyncio.sleep(reply.delay)
        sent = await _write(response, _cut_writes(answer.writes, stop), reply.gap, whole=stop is None)
    if reply.hang_at is not None:
        # Inside an event a ping would become part of the event.
        between = stop == 0 or sent.endswith(b"\n\n")
        await _hang(response, answer.ping, reply.ping if between else 0)
    elif stop is not None and request.transport is not None:
        request.transport.close()


def _cut_writes(writes: list[bytes], stop: int | None) -> list[bytes]:
    """Cut the writes after `stop` bytes."""
    if stop is None:
        return writes
    pieces = []
    for write in writes:
        pieces.append(write[:stop])
        stop -= len(pieces[-1])
    return [write for write in pieces if write]


async def _write(response: web.StreamResponse, writes: list[bytes], gap: float, *, whole: bool) -> bytes:
    """Send the writes with gaps, or joined without a gap; returns the last write."""
    if not gap:
        writes = [b"".join(writes)]
    for write in writes[:-1]:
        await response.write(write)
        await asyncio.sleep(gap)
    last = writes[-1] if writes else b""
    if whole:
        await response.write_eof(last)
    else:
        await response.write(last)
    return last


async def _hang(response: web.StreamResponse, ping: bytes, seconds: float) -> None:
    """Send pings until the task is cancelled, which happens when the client leaves."""
    while ping and seconds:
        await asyncio.sleep(seconds)
        await response.write(ping)
    await asyncio.get_running_loop().create_future()
