"""Clients of `/event` that count deltas: `python -m benchmarks.event_reader URL TOKEN CLIENTS`.

A line when all are connected; then, when a session named `over` was made, what each of them counted.
"""

import asyncio
import sys

from aiohttp import ClientSession, ClientTimeout


async def _count(http: ClientSession, url: str, token: str, connected: asyncio.Barrier) -> int:
    deltas, rest = 0, b""
    async with http.get(url, headers={"authorization": f"Bearer {token}"}) as response:
        await response.content.readuntil(b"\n\n")
        await connected.wait()
        async for piece in response.content.iter_any():
            *frames, rest = (rest + piece).split(b"\n\n")
            deltas += sum(b'"message.part.delta"' in frame for frame in frames)
            if any(b'"session.created"' in frame for frame in frames):
                break
    return deltas


async def main(url: str, token: str, clients: int) -> None:
    connected = asyncio.Barrier(clients + 1)
    async with ClientSession(timeout=ClientTimeout(total=None)) as http, asyncio.TaskGroup() as group:
        counting = [group.create_task(_count(http, url, token, connected)) for _ in range(clients)]
        await connected.wait()
        sys.stdout.write("connected\n")
        sys.stdout.flush()
    sys.stdout.write(f"{' '.join(str(each.result()) for each in counting)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
