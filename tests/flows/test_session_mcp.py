"""MCP servers that a session was given: used by its tree, kept without values, given up at rest."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.session import Rule, Session, SessionChanges
from asyncagents.domain.event import PermissionAsked, SessionCreated
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.sessions import SessionOptions
from asyncagents.engine.workplace.mcp import McpServerState
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import Script, call, say
from asyncagents.testing.inside import inside
from tests.support.mcp.session import (
    Ledger,
    free_port,
    given_server,
    local_server,
    open_mcp_session,
    open_remote_server,
    plain_server,
    uninstall_mcp,
    until_dead,
)
from tests.support.runtime import EventListener, Stage

LAUNCH = {"description": "add", "subagent_type": "general"}
ADD: Script = {
    "go": [[call("kit_add", a=1, b=2)], [say("Done.")]],
    "other": [[say("No tools.")]],
    "again": [[call("kit_add", a=3, b=4)], [say("Done again.")]],
    "task": [[call("task", prompt="child", **LAUNCH)], [say("Delegated.")]],
    "child": [[call("kit_add", a=5, b=6)], [say("Added.")]],
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


async def create(at: Stage, tmp_path: Path, *servers: NewMcpServer) -> Session:
    options = SessionOptions(directory=str(tmp_path / "project"), mcp_servers=servers)
    return await at.runtime.conversations.create(options)


async def states(at: Stage, session_id: SessionId) -> dict[str, McpServerState]:
    found = await at.runtime.conversations.mcp_servers.states(session_id)
    return {server.name: state for server, state in found}


def outputs(at: Stage) -> list[str]:
    """Results of tools, in the order in which models read them."""
    last = (request.messages[-1] for request in at.model.requests)
    return [turn.output for turn in last if isinstance(turn, ToolTurn)]


def last_tools(at: Stage) -> list[str]:
    """Return the tools of servers in the last request."""
    return [tool.name for tool in at.model.requests[-1].tools if tool.name.startswith("kit")]


async def test_a_session_uses_a_server_that_it_was_given_and_others_do_not(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        assert (await states(at, session.id))["kit"].status == "waiting"
        await at.runtime.prompt(session.id, "go")
        assert (await states(at, session.id))["kit"].status == "connected"
        assert "kit_add" in last_tools(at)
        await at.prompt("other")
        assert last_tools(at) == []
    assert outputs(at) == ["3"]


async def test_a_server_by_http_gets_the_headers_it_was_given_with(tmp_path: Path, ledger: Ledger) -> None:
    port = free_port()
    server = NewMcpServer(
        name="kit", type="http", url=f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "a secret of mine"}
    )
    async with open_remote_server(ledger, port), open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, server)
        await at.runtime.prompt(session.id, "go")
        stored = (await at.runtime.session(session.id)).mcp_servers
    assert outputs(at) == ["3"]
    assert [each.headers for each in stored] == [("X-Key",)]


async def test_the_server_of_a_session_replaces_one_of_the_files_with_its_name(
    tmp_path: Path, ledger: Ledger
) -> None:
    other = Ledger(tmp_path / "other")
    async with open_mcp_session(tmp_path, ADD, {"kit": local_server(other)}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "go")
        assert ledger.lines("add")
        assert not other.lines("start")


async def test_no_value_reaches_the_store_an_event_or_a_log(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = ("v4ry-secret-value", "v4ry-secret-flag", "v4ry-secret-query", "v4ry-secret-header")
    program = given_server(ledger, KIT_TOKEN=secrets[0])
    program = replace(program, command=(*program.command, "--api-key", secrets[1]))
    url = f"http://127.0.0.1:9/mcp?key={secrets[2]}"
    address = NewMcpServer(name="far", type="http", url=url, headers={"Authorization": secrets[3]})
    caplog.set_level("DEBUG")
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        with inside(at.runtime).bus.subscribe() as subscription:
            events = EventListener(subscription)
            session = await create(at, tmp_path, program, address)
            await at.runtime.prompt(session.id, "go")
            await at.runtime.conversations.mcp_servers.replace(session.id, (program, address))
            shown = repr(
                (await states(at, session.id), await at.runtime.session(session.id), program, address)
            )
            created = await events.until(SessionCreated)
        texts = [shown, repr(created), caplog.text, *map(repr, at.model.requests)]
        files = [file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert (tmp_path / "data").exists()
    assert files
    for secret in secrets:
        assert not [text for text in texts if secret in text]
        assert not [content for content in files if secret.encode() in content]


async def test_a_child_uses_the_servers_of_its_root(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "task")
        (child,) = await at.runtime.children(session.id)
    assert outputs(at)[0] == "11"
    assert child.mcp_servers == ()


async def test_a_child_that_was_launched_before_uses_servers_that_its_root_gets_later(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        child = await at.runtime.create_session(directory=tmp_path / "project", parent_id=at.session_id)
        await at.runtime.prompt(child.id, "other")
        assert last_tools(at) == []
        await at.runtime.conversations.mcp_servers.replace(at.session_id, (given_server(ledger),))
        await at.runtime.prompt(child.id, "again")
        assert "kit_add" in last_tools(at)
        assert (await states(at, child.id))["kit"].status == "connected"


async def test_the_rules_of_a_parent_bind_its_child_for_tools_of_given_servers(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        deny = Rule(permission="kit_*", pattern="*", action="deny")
        await at.runtime.conversations.change(session.id, SessionChanges(permission=(deny,)))
        await at.runtime.prompt(session.id, "task")
    assert last_tools(at) == []
    assert not ledger.lines("add")
    assert "Not allowed" in outputs(at)[0] or "no tool" in outputs(at)[0], outputs(at)


@pytest.mark.spec("A-04")
async def test_the_program_of_a_given_server_is_a_guarded_place(tmp_path: Path) -> None:
    change = call("write", filePath="kit.py", content="other")
    script: Script = {"go": [[change], [say("Written.")]], "before": [[change], [say("Free.")]]}
    server = NewMcpServer(name="kit", command=(sys.executable, "kit.py"))
    async with open_mcp_session(tmp_path, script, {}, permission={"*": "allow"}) as at:
        await at.prompt("before")
        program = tmp_path / "project" / "kit.py"
        assert program.read_text() == "other"
        program.unlink()
        session = await create(at, tmp_path, server)
        await at.runtime.send(session.id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "reject")
        await at.runtime.wait(session.id)
    assert "a session starts it as a server of tools" in str(asked.request.metadata)
    assert not program.exists()


async def test_a_child_cannot_be_given_servers_of_its_own(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        options = SessionOptions(
            directory=str(tmp_path), parent_id=at.session_id, mcp_servers=(given_server(ledger),)
        )
        with pytest.raises(InvalidInput, match="give them to that one"):
            await at.runtime.conversations.create(options)


async def test_a_new_list_replaces_the_old_one_and_ends_its_connections(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "go")
        pid = ledger.pid()
        await at.runtime.conversations.mcp_servers.replace(session.id, ())
        await until_dead(pid)
        await at.runtime.prompt(session.id, "other")
        assert last_tools(at) == []
        assert (await at.runtime.session(session.id)).mcp_servers == ()


async def test_the_same_list_again_keeps_its_connections(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "go")
        await at.runtime.conversations.mcp_servers.replace(session.id, (given_server(ledger),))
        await at.runtime.prompt(session.id, "again")
        assert len(ledger.lines("start")) == 1
    assert outputs(at) == ["3", "7"]


async def test_after_a_restart_a_server_without_values_starts_and_one_with_values_says_what_to_do(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    other = Ledger(tmp_path / "other")
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, plain_server(ledger), given_server(other, "kit2"))
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        await at.runtime.prompt(session.id, "go")
        found = await states(at, session.id)
        assert outputs(at) == ["3"]
        assert not other.lines("start")
        assert found["kit"].status == "connected"
        assert found["kit2"].status == "failed"
        assert "The values of LEDGER, PYTHONDONTWRITEBYTECODE are not stored" in found["kit2"].why
        assert f"session={session.id} action=start_server mcp_server=kit2: The values of" in caplog.text

        servers = (plain_server(ledger), given_server(other, "kit2"))
        await at.runtime.conversations.mcp_servers.replace(session.id, servers)
        await at.runtime.prompt(session.id, "again")
        assert "kit2_add" in last_tools(at)
        assert (await states(at, session.id))["kit2"].status == "connected"


async def test_after_a_restart_a_child_finds_the_servers_of_a_root_that_has_not_worked(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, plain_server(ledger))
        child = await at.runtime.create_session(directory=tmp_path / "project", parent_id=session.id)
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        await at.runtime.prompt(child.id, "child")
    assert outputs(at) == ["11"]


async def test_a_fork_has_the_servers_and_values_of_its_source(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        fork = await at.runtime.conversations.fork(session.id)
        await at.runtime.prompt(fork.id, "go")
    assert outputs(at) == ["3"]


async def test_deleting_a_session_ends_its_servers(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "go")
        pid = ledger.pid()
        await at.runtime.delete_session(session.id)
        await until_dead(pid)


async def test_a_prompt_of_a_given_server_is_a_command_of_its_session(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, {"": [[say("Greeted.")]]}, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        child = await at.runtime.create_session(directory=tmp_path / "project", parent_id=session.id)
        for each in (session, child):
            await at.runtime.prompt(each.id, "/kit:greet Ann")
            assert "Ann" in repr(at.model.requests[-1].messages)


async def test_without_the_client_a_session_goes_on_and_the_state_says_what_to_install(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninstall_mcp(monkeypatch)
    async with open_mcp_session(tmp_path, ADD, {}) as at:
        session = await create(at, tmp_path, given_server(ledger))
        await at.runtime.prompt(session.id, "other")
        found = (await states(at, session.id))["kit"]
    assert found.status == "failed"
    assert "pip install 'asyncagents[mcp]'" in found.why
