"""`asyncagents acp` as a program: servers that cannot start, and sessions in its own process."""

import asyncio
import json
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.domain.id import SessionId
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.support.acp.client import AgentFailed, ProcessClient, open_client
from tests.support.acp.stage import kill_server
from tests.support.process.command_line import (
    NO_VARIABLES,
    PROGRAM,
    Desk,
    open_desk,
    open_terminal,
    wait_for_exit,
)
from tests.support.wait import wait_until

HELLO: Script = {"hi": [Reply(text="Hello.")]}


@asynccontextmanager
async def open_editor_desk(
    root: Path, script: Script, *, env: Mapping[str, str] = NO_VARIABLES, **config: object
) -> AsyncIterator[tuple[Desk, Provider, ProcessClient]]:
    """Open a desk with a client of `asyncagents acp`; at the end the server it started is killed."""
    async with open_desk(root, script, strict=False) as (desk, provider):
        desk.configure(**config)
        try:
            async with open_client((PROGRAM, "acp"), cwd=desk.project, env=desk.environment(env)) as client:
                await client.initialize()
                yield desk, provider, client
        finally:
            await kill_server(desk.data)


async def fail(client: ProcessClient, method: str, **params: object) -> str:
    """Return the error of a request that must fail."""
    with pytest.raises(AgentFailed) as failed:
        await client.request(method, **params)
    return str(failed.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("asyncagents acp < /dev/null | cat", "stdin is neither a pipe nor a terminal"),
        ("asyncagents acp < file | cat", "stdin is neither a pipe nor a terminal"),
        ("cat file | asyncagents acp > other", "stdout is neither a pipe nor a terminal"),
    ],
)
async def test_files_instead_of_pipes_are_refused_with_a_command_that_works(
    tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "file").write_text("{}\n")
    async with open_desk(tmp_path) as (desk, _):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", line.replace("asyncagents", str(PROGRAM), 1)),
            cwd=tmp_path,
            env=desk.environment({}),
            stderr=PIPE,
        )
        ran = await wait_for_exit(process)

    assert ran.code == 2
    assert ran.err.startswith(f"error: {said}: an editor speaks to `asyncagents acp`\nhint: ")


async def test_a_person_at_a_terminal_reads_what_the_command_waits_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), open_terminal(desk, "acp") as terminal:
        await terminal.until("Ctrl-D ends it")
        terminal.press(b"\x04")
        code = await terminal.end()

    assert code == 0


@pytest.mark.spec("X-03")
async def test_a_server_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with open_editor_desk(tmp_path, HELLO) as (desk, _, client):
        (desk.project / "asyncagents.json").write_text("{ wrong")
        error = await fail(client, "session/new", cwd=str(desk.project), mcpServers=[])
        desk.configure()
        session_id = await client.new_session(desk.project)
        stopped = await client.prompt(session_id, "hi")

    assert "asyncagents.json is not valid JSON at line 1" in error
    assert "server.log" in error
    assert stopped == "end_turn"
    assert client.errors == b""


@pytest.mark.spec("X-03")
async def test_a_project_with_a_broken_configuration_does_not_keep_others_from_a_server(
    tmp_path: Path,
) -> None:
    async with open_editor_desk(tmp_path, HELLO) as (desk, _, client):
        other = tmp_path / "other"
        desk.project.rename(other)
        desk.project.mkdir()
        (desk.project / "asyncagents.json").write_text("{ wrong")
        await fail(client, "session/new", cwd=str(desk.project), mcpServers=[])
        session_id = await client.new_session(other)
        stopped = await client.prompt(session_id, "hi")

    assert stopped == "end_turn"


@pytest.mark.spec("X-03")
async def test_a_session_goes_on_after_its_server_could_not_be_started_again(tmp_path: Path) -> None:
    async with open_editor_desk(tmp_path, HELLO) as (desk, _, client):
        session_id = await client.new_session(desk.project)
        (desk.project / "asyncagents.json").write_text("{ wrong")
        await kill_server(desk.data)
        prompt = [{"type": "text", "text": "hi"}]
        error = await fail(client, "session/prompt", sessionId=session_id, prompt=prompt)
        desk.configure()
        stopped = await client.prompt(session_id, "hi")

    assert "is not valid JSON" in error
    assert stopped == "end_turn"
    assert client.text(session_id) == "Hello."


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(
    ("env", "config", "reason"),
    [
        ({"DESK_KEY": ""}, {"model": "anthropic/claude-x"}, "ANTHROPIC_API_KEY"),
        ({"ASYNCAGENTS_TRUST": ""}, {}, "asyncagents trust"),
    ],
)
async def test_a_missing_key_or_trust_is_said_in_a_sentence(
    tmp_path: Path, env: dict[str, str], config: dict[str, object], reason: str
) -> None:
    async with open_editor_desk(tmp_path, HELLO, env=env, **config) as (desk, _, client):
        session_id = await client.new_session(desk.project)
        prompt = [{"type": "text", "text": "hi"}]
        error = await fail(client, "session/prompt", sessionId=session_id, prompt=prompt)

    assert reason in error


async def test_a_client_may_close_the_stderr_of_the_agent(tmp_path: Path) -> None:
    async with open_desk(tmp_path, HELLO, strict=False) as (desk, _):
        closed = ("sh", "-c", f"exec '{PROGRAM}' acp 2>&-")
        async with open_client(closed, cwd=desk.project, env=desk.environment({})) as client:
            await client.initialize()
            code = await client.close()

    assert code == 0


async def wait_until_parked(desk: Desk, session_id: str) -> None:
    """Wait until no process runs the session: an ask is published a moment before its run ends."""

    async with desk.look() as runtime:

        async def is_parked() -> bool:
            return not await runtime.is_running(SessionId(session_id))

        await wait_until(is_parked)


@pytest.mark.spec("X-03")
async def test_without_the_api_sessions_run_in_the_process_and_its_end_names_what_stays(
    tmp_path: Path,
) -> None:
    run = Reply(text="", tools=(ToolUse(name="bash", args={"command": "echo out", "description": "Say"}),))
    script: Script = {"hi": [Reply(text="Hello.")], "run": [run, Reply(text="Ran.")]}
    off = {"ASYNCAGENTS_API_ENABLED": "false"}
    async with open_editor_desk(tmp_path, script, env=off, permission={"bash": "ask"}) as (desk, _, client):
        client.policy = lambda request: None
        session_id = await client.new_session(desk.project)
        stopped = await client.prompt(session_id, "hi")
        client.post_prompt(session_id, "run")
        await client.next_ask()
        await wait_until_parked(desk, session_id)
        code = await client.close()
        listed = await desk.run("asks", "--json")

    assert stopped == "end_turn"
    assert code == 0
    assert len(json.loads(listed.out)["asks"]) == 1
    assert client.errors.decode() == (
        "ending: the client closed the connection\n"
        "1 ask waits for an answer: `asyncagents asks --all`\n"
        f"`asyncagents serve --data-dir {desk.data}` goes on with this, or the next client\n"
    )


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_without_the_api_a_signal_ends_the_process_as_a_closed_editor_does(
    tmp_path: Path, number: signal.Signals
) -> None:
    slow = Reply(text="one two three four", chunks=4, hang_at=800, times=1)
    off = {"ASYNCAGENTS_API_ENABLED": "false"}
    async with open_editor_desk(tmp_path, {"hi": [slow]}, env=off) as (desk, provider, client):
        session_id = await client.new_session(desk.project)
        client.post_prompt(session_id, "hi")
        await provider.wait_requests(1)
        code = await client.end(number)

    assert code == 128 + number
    assert client.errors.decode() == (
        f"ending on {number.name}\n"
        "sessions are at work: `asyncagents sessions --all`\n"
        f"`asyncagents serve --data-dir {desk.data}` goes on with this, or the next client\n"
    )


@pytest.mark.spec("X-03")
async def test_without_the_api_work_that_the_editor_leaves_goes_on_with_the_next_start(
    tmp_path: Path,
) -> None:
    slow = Reply(text="one two three four", chunks=4, hang_at=800, times=1)
    script: Script = {"hi": [slow, Reply(text="Hello again.")]}
    off = {"ASYNCAGENTS_API_ENABLED": "false"}
    async with open_editor_desk(tmp_path, script, env=off) as (desk, provider, client):
        session_id = await client.new_session(desk.project)
        client.post_prompt(session_id, "hi")
        await provider.wait_requests(1)
        code = await client.close()
        async with open_client((PROGRAM, "acp"), cwd=desk.project, env=desk.environment(off)) as again:
            await again.initialize()
            known = {"sessionId": session_id, "cwd": str(desk.project), "mcpServers": []}
            await again.request("session/load", **known)
            await again.until_text(session_id, "Hello again.")
            await again.until_idle(session_id)

    assert code == 0
    assert "sessions are at work" in client.errors.decode()
    assert again.errors.decode() == "ending: the client closed the connection\n"
