"""A worker process of the demo: it knows a pending id and submits its result."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents.app.runtime import open_runtime
from asyncagents.config.config import Config
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.errors import AlreadySettled


class WorkerReport(Struct, frozen=True):
    """The answers to its three submissions."""

    first: PendingToolCall
    again: PendingToolCall
    refused: str


async def submit_results(data: Path, pending_id: str) -> WorkerReport:
    """Submit a result twice, as a client that got no response does; then a different one."""
    output = f"v2 is live, build {os.getpid()}"  # cannot be known in advance
    async with open_runtime(data, config=Config(data_dir=data), serve=False) as runtime:
        first = await runtime.async_tools.submit_result(pending_id, output)
        again = await runtime.async_tools.submit_result(pending_id, output)
        try:
            await runtime.async_tools.submit_error(pending_id, "no machine answers")
        except AlreadySettled as error:
            return WorkerReport(first, again, str(error))
        return WorkerReport(first, again, "")


if __name__ == "__main__":
    report = asyncio.run(submit_results(Path(sys.argv[1]), sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(report))
