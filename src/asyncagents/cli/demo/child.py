"""A process that serves the demo's data directory until its stdin ends or it is killed."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.crew import CountTool, allow_all
from asyncagents.cli.demo.ledger import Ledger
from asyncagents.cli.demo.shop import Shop, shop_model

STUCK, STEADY = "stuck", "steady"


@asynccontextmanager
async def open_child(data: Path, mode: str) -> AsyncIterator[Process]:
    """Start a child. It exits with the block, and also if this process dies, as its stdin ends then."""
    command = [sys.executable, "-P", "-m", "asyncagents.cli.demo.child", str(data), mode]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, start_new_session=True)
    assert process.stdin is not None
    try:
        yield process
        process.stdin.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def serve(data: Path, *, stuck: bool) -> None:
    ledger = Ledger(data)
    tools = [*Shop(ledger, hang if stuck else do_nothing).tools(), CountTool(ledger).tool()]
    model = shop_model(stuck=True) if stuck else shop_model(word_seconds=0)
    async with open_runtime(data, model=model, tools=tools, policy=allow_all, delegation=True):
        await asyncio.to_thread(sys.stdin.buffer.read)


async def hang(tool: str) -> None:
    """Report to the parent process that the tool runs, then block forever."""
    print(tool, flush=True)
    await asyncio.Event().wait()


async def do_nothing(tool: str) -> None:
    pass


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), stuck=sys.argv[2] == STUCK))
