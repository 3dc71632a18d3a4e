"""Exports that somebody made up: what they bring harms nothing that is here, and no answer runs another call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.call import Completed, Once
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.errors import RequestError
from asyncagents.llm.scripted import say
from tests.flows.kit import PATIENCE, Text, asks_first
from tests.flows.moving import brought, change, elsewhere
from tests.flows.test_import_hostile import ASKED, PENDING, SESSION, STEP, TOOL, mark
from tests.flows.test_import_opencode import waiting_session

SESSION_ID = SessionId("ses_w")


def marked(storage: Path, call: dict[str, Any]) -> None:
    """A session of ours that waits, with a call as the attacker would have it."""
    waiting_session(storage)
    (storage / PENDING).unlink()
    known = {"id": "tool_x", "turn": 1, "created": 1, "later": {}, **call}
    change(storage / TOOL, tool="careful", **mark(call=known))
    change(storage / SESSION, **mark(turn=1, inTurn=True))
    change(storage / STEP, **mark(position=2, turn=1))
    change(storage / ASKED, **mark(position=1, turn=1))


@pytest.mark.spec("P-13")
async def test_an_imported_ask_does_not_let_its_answer_run_what_it_does_not_show(tmp_path: Path) -> None:
    ran: list[str] = []

    async def run(args: Text, context: ToolContext) -> Completed:
        ran.append(args.text)
        return Completed("done")

    ask = {"id": "per_x", "sessionID": "ses_w", "permission": "echo", "patterns": ["harmless"], "always": []}
    state = {"type": "open", "kind": "ask", "since": 1, "ask": {**ask, "metadata": {}}}
    marked(tmp_path / "storage", {"granted": ["by hand"], "ask_id": "per_x", "state": state})
    running = {"status": "running", "input": {"text": "rm -rf /"}, "time": {"start": 2}}
    change(tmp_path / "storage" / TOOL, state=running)
    done = await brought(tmp_path / "data", tmp_path / "storage")
    careful: Tool[Text] = Tool("careful", Text, run, plan=asks_first)
    async with elsewhere(tmp_path / "data", {"and?": [[], [say("x")]]}, careful) as (runtime, _):
        with pytest.raises(RequestError):
            await runtime.answer("per_x", Once())
        await asyncio.wait_for(runtime.wait(SESSION_ID), PATIENCE)
    assert not done.troubles, done.troubles
    assert ran == []
