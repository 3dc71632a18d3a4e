"""`kill -9` of a server while a person's own command runs there: it dies, too, and is never run again."""

import asyncio
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.call.call import IN_DOUBT
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import PROCESS_PATIENCE, open_desk
from tests.support.process.server import ServerProcess, open_server_process


async def post(server: ServerProcess, path: str, **body: Any) -> Any:
    told = await server.client.request("POST", path, body=body, headers=server.client.authorization)
    assert told.status == 200, told
    return told.json


def reader_is_gone(pipe: int) -> bool:
    """Waits until nobody holds the other end of a pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _, event in poll.poll(PROCESS_PATIENCE * 1000))


@pytest.mark.timeout(120)
@pytest.mark.spec("X-01", "X-11")
async def test_a_command_dies_with_its_server_and_is_in_doubt_ever_after(tmp_path: Path) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "log"
    os.mkfifo(pipe)
    command = f"echo ran >> {log}; setsid sh -c 'cat {pipe}' & wait"
    async with open_desk(tmp_path / "desk", {"What became of it?": [Reply(text="Nobody knows.")]}) as (
        desk,
        _,
    ):
        async with open_server_process(desk, "--port", "0") as server, asyncio.TaskGroup() as group:
            session = await post(server, "/session")
            at = f"/session/{session['id']}"
            running = group.create_task(_in_vain(server, f"{at}/shell", command))
            write = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)  # until the command reads
            await server.stop(signal.SIGKILL)
            await running
            gone = await asyncio.to_thread(reader_is_gone, write)
            os.close(write)
        async with open_server_process(desk, "--port", "0") as server:
            entry = await post(server, f"{at}/shell", command=command, agent="build", messageID=MINE)
            answer = await post(
                server, f"{at}/message", parts=[{"type": "text", "text": "What became of it?"}]
            )

    assert gone
    (part,) = entry["parts"]
    assert part["state"]["status"] == "error"
    assert part["state"]["error"] == IN_DOUBT
    assert part["state"]["metadata"] == {"inDoubt": True}
    assert entry["info"]["time"]["completed"]
    assert [each["text"] for each in answer["parts"] if each["type"] == "text"] == ["Nobody knows."]
    assert log.read_text() == "ran\n"


MINE = "msg_000000000001AAAAAAAAAAAAAA"


async def _in_vain(server: ServerProcess, path: str, command: str) -> None:
    with pytest.raises(Exception, match=r"disconnected|reset|closed"):
        await post(server, path, command=command, agent="build", messageID=MINE)
