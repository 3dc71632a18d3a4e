"""A provider that costs next to nothing: `python -m benchmarks.opencode.model` says on which port it listens.

A prompt says how it is answered: `[[delay=2 chunks=50 gap=0.02]]`, the last such words in a request count.
"""

import asyncio
import re
import sys

import msgspec
import uvloop

_DIRECTIVE = re.compile(rb"\[\[([a-z]+=[\d.]+(?: [a-z]+=[\d.]+)*)\]\]")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
WORD = "ok "


def _event(choices: list[object], **more: object) -> bytes:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    data = b"data: " + msgspec.json.encode({**base, "choices": choices, **more}) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _delta(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event([{"index": 0, "delta": delta, "finish_reason": finish}])


FIRST = HEAD + _delta({"role": "assistant", "content": ""})
CHUNK = _delta({"content": WORD})
DONE = b"data: [DONE]\n\n"
END = (
    _delta({}, "stop")
    + _event([], usage={"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11})
    + b"%x\r\n%s\r\n" % (len(DONE), DONE)
    + LAST
)


class Provider(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        found = _LENGTH.search(self._buffer, 0, head + 2) if head >= 0 else None
        if found is None:
            return
        end = head + 4 + int(found[1])
        if len(self._buffer) >= end:
            body, self._buffer = self._buffer[head + 4 : end], self._buffer[end:]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        asked = _DIRECTIVE.findall(body)
        words = dict(word.split(b"=") for word in asked[-1].split()) if asked else {}
        delay, gap = float(words.get(b"delay", 0)), float(words.get(b"gap", 0))
        chunks = int(words.get(b"chunks", 1))
        if delay or gap:
            asyncio.get_running_loop().call_later(delay, self._begin, chunks, gap)
        else:
            self._write(FIRST + CHUNK * chunks + END)

    def _begin(self, chunks: int, gap: float) -> None:
        self._write(FIRST if gap else FIRST + CHUNK * chunks + END)
        if gap:
            self._go_on(chunks, gap)

    def _go_on(self, chunks: int, gap: float) -> None:
        self._write(CHUNK if chunks else END)
        if chunks:
            asyncio.get_running_loop().call_later(gap, self._go_on, chunks - 1, gap)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
