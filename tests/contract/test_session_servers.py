"""The MCP servers in the row of a session, on every store."""

import msgspec
import pytest

from asyncagents.domain.conversation.mcp_server import SessionMcpServer
from asyncagents.domain.conversation.session import NewSession, SessionChanges
from asyncagents.domain.event import SessionUpdated
from asyncagents.domain.shape import encode
from tests.support.store.lab import POOL, Lab

FILES = SessionMcpServer(name="files", type="stdio", command=("files", "--root", "/"), environment=("KEY",))
ISSUES = SessionMcpServer(
    name="issues", type="http", url="https://example.org/…", headers=("X-Key",), hidden=("url",)
)


@pytest.mark.spec("X-03", "X-04")
async def test_a_session_keeps_its_servers_in_their_order_under_their_names_on_the_wire(lab: Lab) -> None:
    info = msgspec.structs.replace(lab.info(), mcp_servers=(ISSUES, FILES))
    await lab.store.create_session(NewSession(info=info, pool=POOL))

    stored = await lab.store.session(info.id)
    assert stored.mcp_servers == (ISSUES, FILES)
    assert msgspec.json.decode(encode(stored))["mcpServers"] == [
        {
            "name": "issues",
            "type": "http",
            "url": "https://example.org/…",
            "headers": ["X-Key"],
            "hidden": ["url"],
        },
        {"name": "files", "type": "stdio", "command": ["files", "--root", "/"], "environment": ["KEY"]},
    ]


@pytest.mark.spec("X-03")
async def test_an_update_replaces_the_servers_and_an_empty_list_leaves_the_field_out(lab: Lab) -> None:
    session_id = await lab.session()
    before = await lab.store.session(session_id)
    assert b"mcpServers" not in encode(before)

    given = await lab.store.conversation.update_session(session_id, SessionChanges(mcp_servers=(FILES,)))
    assert given.mcp_servers == (FILES,)
    assert given.time == before.time
    assert lab.events[-1] == SessionUpdated(session_id=session_id, info=given)

    titled = await lab.store.conversation.update_session(session_id, SessionChanges(title="Bees"))
    assert titled.mcp_servers == (FILES,)

    after = await lab.store.conversation.update_session(session_id, SessionChanges(mcp_servers=()))
    assert await lab.store.session(session_id) == after
    assert b"mcpServers" not in encode(after)


async def test_the_same_servers_again_write_and_publish_nothing(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.store.conversation.update_session(session_id, SessionChanges(mcp_servers=(FILES,)))
    seen, cursor = len(lab.events), await lab.store.cursor()
    await lab.store.conversation.update_session(session_id, SessionChanges(mcp_servers=(FILES,)))
    assert len(lab.events) == seen
    assert await lab.store.cursor() == cursor
