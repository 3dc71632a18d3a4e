"""The program of an external agent as a process: what is said of one that hangs, and of one that ended."""

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from asyncagents.config.clock import SystemClock
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.conversation.failure import describe_failure
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.external.agent import ExternalInput, ExternalStep
from asyncagents.engine.tool import Ask
from asyncagents.llm.model import StreamError, TextStart
from asyncagents.remote.acp.agents import MOST_ERROR, AcpAgents, connect
from asyncagents.remote.acp.calls import MergedCall
from asyncagents.remote.acp.client import AcpClient, AnswerTimeout
from asyncagents.remote.acp.program import open_program
from asyncagents.remote.json_rpc import ConnectionLoss
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.project.agent_launch import AgentLaunch
from tests.support.wait import PATIENCE, wait_until

MUTE = "import sys; print('no key', file=sys.stderr, flush=True); sys.stdin.buffer.read()"
LEAKY = (
    "import json, os, sys\n"
    "for line in sys.stdin:\n"
    "    message = 'wrong key: ' + os.environ['KEY'] + ' x' * 100_000\n"
    "    error = {'code': 1, 'message': message}\n"
    "    print(json.dumps({'id': json.loads(line)['id'], 'error': error}), flush=True)\n"
)
KEY = "key-of-someone"
NOISY = (
    "import json\n"
    "first = json.loads(input())\n"
    "for _ in range(20_000): print('debug: at work')\n"
    "print(json.dumps({'id': first['id'], 'result': {'protocolVersion': 1}}), flush=True)\n"
    "input()\n"
)
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Busy."}}
SAID = {"method": "session/update", "params": {"sessionId": "", "update": CHUNK}}
DEAF = f"import time; print({json.dumps(json.dumps(SAID))}, flush=True); time.sleep(600)"
BROKEN = "import sys; print('no key', file=sys.stderr, flush=True); sys.exit(3)"


def launch(tmp_path: Path, code: str) -> AgentLaunch:
    return AgentLaunch(
        processes=Processes({**os.environ, "KEY": KEY}, folder=tmp_path / "output", namespace=False),
        command=(sys.executable, "-c", code),
        cwd=tmp_path,
        root=tmp_path,
        home=tmp_path,
        secrets=(KEY,),
    )


async def ask_nothing(call: MergedCall) -> tuple[Ask, ...]:
    return ()


@pytest.mark.spec("X-03")
async def test_a_program_that_hangs_is_said_to_run(tmp_path: Path) -> None:
    client = AcpClient(str(tmp_path), ask_nothing)
    async with asyncio.TaskGroup() as group, open_program(launch(tmp_path, MUTE), group) as program:

        async def has_written() -> bool:
            return "no key" in await program.end_text()

        async with connect(client, program, group):
            with pytest.raises(AnswerTimeout, match=r"did not answer initialize within 0\.1 s"):
                await client.initialize(seconds=0.1)
        await wait_until(has_written)
        assert await program.end_text() == "It still runs. Its last lines: no key"


@pytest.mark.spec("X-03")
async def test_a_program_that_ended_is_said_to_have_ended(tmp_path: Path) -> None:
    client = AcpClient(str(tmp_path), ask_nothing)
    async with asyncio.TaskGroup() as group, open_program(launch(tmp_path, BROKEN), group) as program:
        async with connect(client, program, group):
            with pytest.raises(ConnectionLoss, match="the other side closed the connection"):
                await client.initialize()
        assert await program.end_text() == "It ended with exit code 3. Its last lines: no key"


@pytest.mark.spec("X-03")
async def test_a_program_may_log_to_its_stdout_without_reading(tmp_path: Path) -> None:
    client = AcpClient(str(tmp_path), ask_nothing)
    async with (
        asyncio.TaskGroup() as group,
        open_program(launch(tmp_path, NOISY), group) as program,
        connect(client, program, group),
    ):
        answer = await client.initialize(seconds=PATIENCE)

    assert answer.protocol_version == 1


@pytest.mark.spec("X-03")
async def test_a_program_that_reads_nothing_is_ended_by_a_cancel(tmp_path: Path) -> None:
    client = AcpClient(str(tmp_path), ask_nothing)
    huge = [{"type": "text", "text": "x" * 1_000_000}]
    async with (
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as group,
        open_program(launch(tmp_path, DEAF), group) as program,
        connect(client, program, group),
        aclosing(client.prompt(huge, group)) as events,
    ):
        assert isinstance(await anext(events), TextStart)


@pytest.mark.spec("X-03")
async def test_an_error_of_a_program_is_kept_short_and_without_its_key(tmp_path: Path) -> None:
    step = ExternalStep(
        session_id=SessionId("ses_1"),
        step_id=MessageId("msg_2"),
        agent="ext",
        backend=AcpBackend(command=("ext",)),
        directory=str(tmp_path),
        input=ExternalInput(unsent=(), newest=MessageId("msg_1")),
    )
    async with asyncio.TaskGroup() as group:
        agents = AcpAgents(
            lambda step: open_program(launch(tmp_path, LEAKY), group),
            lambda step, call: ask_nothing(call),
            group=group,
            clock=SystemClock(),
        )
        (failed,) = [event async for event in agents.stream(step)]

    assert isinstance(failed, StreamError)
    _, why = describe_failure(failed.failure)
    assert why.startswith("The external agent ext failed: wrong key: … x x")
    assert KEY not in why
    assert len(why) < 2 * MOST_ERROR
