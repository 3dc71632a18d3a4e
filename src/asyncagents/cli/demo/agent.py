"""A process that runs one session of the demo until it rests or parks, and then exits."""

import asyncio
import sys
from pathlib import Path

import msgspec

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.deploy import Reporter, deploy_tool
from asyncagents.cli.demo.ledger import Ledger
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.id import SessionId


async def work(data: Path, session_id: SessionId, prompt: str) -> tuple[PendingToolCall, ...]:
    """Run a prompt, or without one what is left, until the session rests; return its waiting calls."""
    async with open_runtime(data, model=Reporter(), tools=[deploy_tool(Ledger(data))]) as runtime:
        if prompt:
            await runtime.prompt(session_id, prompt)
        else:
            await runtime.wait(session_id)
        return await runtime.async_tools.waiting_calls(session_id)


if __name__ == "__main__":
    left = asyncio.run(work(Path(sys.argv[1]), SessionId(sys.argv[2]), sys.argv[3]))
    sys.stdout.buffer.write(msgspec.json.encode(left))
