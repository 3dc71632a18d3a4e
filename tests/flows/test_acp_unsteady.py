"""An editor whose server is slow or cuts a connection, and answers that the server refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.client.client import open_client
from asyncagents.llm.scripted import Script, call, say
from tests.support.delegation import open_delegation_stage
from tests.support.editor import Editor, open_editor
from tests.support.http.cutting_proxy import CuttingProxy, open_cutting_proxy
from tests.support.http.server import serve_runtime
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

WAIT: Script = {"wait": [[call("gate")], [say("Done.")]]}
PATIENT_SECONDS = 0.2
"""How long a client tries a request again that was cut off."""


@asynccontextmanager
async def open_editor_behind_proxy(tmp_path: Path, gate: Gate) -> AsyncIterator[tuple[Editor, CuttingProxy]]:
    data = tmp_path / "data"
    async with (
        open_delegation_stage(data, WAIT, gate.tool) as at,
        serve_runtime(at.runtime, data) as served,
        open_cutting_proxy(served.listing.url) as proxy,
    ):
        link = open_client(proxy.url, token=served.listing.token, patience=PATIENT_SECONDS)
        async with open_editor(data, server=link) as editor:
            yield editor, proxy


@pytest.mark.spec("X-03")
async def test_a_cancel_that_overtakes_its_prompt_ends_the_turn(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_editor_behind_proxy(tmp_path, gate) as (editor, proxy):
        session_id = await editor.new_session(tmp_path)
        proxy.hold = lambda asked: b"/prompts " in asked
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await proxy.holding.wait()
        proxy.hold = lambda asked: False
        await editor.notify("session/cancel", sessionId=session_id)
        await editor.request("session/list")
        proxy.go.set()
        stopped = await prompted

    assert stopped == "cancelled"
    assert editor.text() == ""


@pytest.mark.spec("X-03")
async def test_a_prompt_is_answered_though_a_load_of_its_session_fails_meanwhile(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_editor_behind_proxy(tmp_path, gate) as (editor, proxy):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        proxy.cut = lambda asked, said: b"/tree " in asked
        await editor.error("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        gate.go.set()
        async with asyncio.timeout(PATIENCE):
            stopped = await prompted

    assert stopped == "end_turn"
