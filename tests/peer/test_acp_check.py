"""The checks of frames and the test client of the Agent Client Protocol find what is wrong."""

import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp.client import (
    ALLOW,
    CANCELLED,
    Policy,
    ProcessClient,
    cancel,
    choose,
    hold,
    open_client,
)
from tests.support.acp.rules import ConnectionCheck
from tests.support.acp.schema import Frame, Side, load_schema
from tests.support.path import ROOT
from tests.support.process.npm import SECONDS

pytestmark = pytest.mark.timeout(SECONDS + 60)
PROGRAM = ROOT / "tests" / "support" / "acp" / "plain_agent.py"
Sent = tuple[Side, Frame]


def request(id: Any, method: str, **params: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def result(id: Any, **fields: Any) -> Frame:
    return {"jsonrpc": "2.0", "id": id, "result": fields}


def update(kind: str, session_id: str = "s", **fields: Any) -> Frame:
    params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text: str = "x", kind: str = "agent_message_chunk", **more: Any) -> Frame:
    return update(kind, content={"type": "text", "text": text}, **{"messageId": "m", **more})


PERMISSION = {
    "toolCall": {"toolCallId": "c", "title": "Edit"},
    "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}],
}
BEGIN: list[Sent] = [
    ("client", request(0, "initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})),
    ("agent", result(0, protocolVersion=1, agentCapabilities={"loadSession": True})),
    ("client", request(1, "session/new", cwd="/", mcpServers=[])),
    ("agent", result(1, sessionId="s")),
]
TALK: list[Sent] = [
    ("client", request(2, "session/prompt", sessionId="s", prompt=[{"type": "text", "text": "hi"}])),
    ("agent", chunk()),
    ("agent", update("session_info_update", _meta={"asyncagents": {"state": "running"}})),
    ("agent", update("notice", severity="info", title="n")),
    ("agent", update("tool_call", toolCallId="c", title="t", status="pending", rawInput={"any": {"x": 1}})),
    ("agent", request("p", "session/request_permission", sessionId="s", **PERMISSION)),
    ("client", {"jsonrpc": "2.0", "id": "p", "result": CANCELLED}),
    ("agent", update("tool_call_update", toolCallId="c", status="completed")),
    ("client", {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
    ("client", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}),
    ("agent", {"jsonrpc": "2.0", "method": "_ours/anything", "params": {"x": 1}}),
    ("agent", {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}}),
    ("agent", result(2, stopReason="cancelled")),
]
FORM = {"mode": "form", "sessionId": "s", "message": "?", "requestedSchema": {"type": "object"}}
DIFF = {"type": "diff", "path": "/a", "oldText": "a", "newText": "b"}
WRONG: dict[str, Sent] = {
    '"jsonrpc" must be': ("agent", {"method": "_x"}),
    "must be an object": ("agent", [chunk()]),  # type: ignore[dict-item]
    "'messageID' was unexpected": ("agent", chunk(messageID="m")),
    "'foo' was unexpected": (
        "agent",
        update("agent_message_chunk", content={"type": "text", "text": "", "foo": 1}),
    ),
    "'update', 'content', 'text'": ("agent", chunk(text=7)),  # type: ignore[arg-type]
    '"sessionUpdate":"dance"': ("agent", update("dance")),
    '"sessionUpdate":"subagent_update"': ("agent", update("subagent_update", sessionId="c")),
    "'oldTxt' was unexpected": (
        "agent",
        update("tool_call", toolCallId="d", title="t", content=[{**DIFF, "oldTxt": "a"}]),
    ),
    '"bogus" is not valid': ("agent", update("tool_call", toolCallId="d", title="t", status="bogus")),
    '"cancelled" is not valid': (
        "agent",
        update("plan", entries=[{"content": "a", "priority": "high", "status": "cancelled"}]),
    ),
    '"options" is a required': (
        "agent",
        request(9, "session/request_permission", sessionId="s", toolCall={}),
    ),
    "no request that the client handles": ("agent", request(9, "session/new", cwd="/", mcpServers=[])),
    "'session/dance' is no request": ("client", request(9, "session/dance")),
    '"cwd" is a required property': ("client", request(9, "session/new", mcpServers=[])),
    "no request of the client with the id 77": ("agent", result(77)),
    "no request of the client with the id 1": ("agent", result(1, sessionId="s")),
    "either a result or an error": ("agent", {"jsonrpc": "2.0", "id": 3}),
    "the id 1 is used again": ("client", request(1, "session/new", cwd="/", mcpServers=[])),
    "neither a whole number nor a text": ("client", request(1.5, "session/new", cwd="/", mcpServers=[])),
    "unknown fields: ['extra']": ("agent", {**chunk(), "extra": 1}),
    "Error['code']": ("agent", {"jsonrpc": "2.0", "id": None, "error": {"code": "E", "message": "x"}}),
}
BROKEN: dict[str, list[Sent]] = {
    "before initialize was answered": [("agent", chunk())],
    "which this client does not have": [*BEGIN, ("agent", update("plan", "other", entries=[]))],
    "agent_message_chunk is for the session s": [
        *(*BEGIN, ("client", request(5, "session/close", sessionId="s")), ("agent", result(5))),
        ("agent", chunk()),
    ],
    "begins a second time": [
        *(*BEGIN, ("agent", update("tool_call", toolCallId="c", title="t"))),
        ("agent", update("tool_call", toolCallId="c", title="t")),
    ],
    "updated before it begins": [*BEGIN, ("agent", update("tool_call_update", toolCallId="c"))],
    "from completed to in_progress": [
        *(*BEGIN, *TALK),
        ("agent", update("tool_call_update", toolCallId="c", status="in_progress")),
    ],
    "has no messageId": [*BEGIN, ("agent", chunk(messageId=None))],
    "of the agent and of the user": [*BEGIN, ("agent", chunk()), ("agent", chunk(kind="user_message_chunk"))],
    "has no session.compaction": [
        *BEGIN,
        ("agent", update("compaction_update", compactionId="x", status="completed")),
    ],
    "has no elicitation.form": [*BEGIN, ("agent", request(5, "elicitation/create", **FORM))],
    "prompt ended with end_turn": [
        *(*BEGIN, *TALK[:-1], ("client", request(6, "session/list")), ("agent", result(6, sessions=[]))),
        ("agent", result(2, stopReason="end_turn")),
    ],
}


async def find_problems(sent: list[Sent], *, unstable: bool = False) -> list[str]:
    check = ConnectionCheck(await load_schema(unstable=unstable))
    return [problem for sender, frame in sent for problem in check.find_problems(sender, frame)]


async def test_frames_of_a_right_conversation_have_no_problem() -> None:
    assert await find_problems([*BEGIN, *TALK]) == []


@pytest.mark.parametrize(("problem", "sent"), WRONG.items(), ids=list(WRONG))
async def test_a_frame_that_the_schema_forbids_is_found(problem: str, sent: Sent) -> None:
    found = await find_problems([*BEGIN, sent])
    assert problem in "\n".join(found)


@pytest.mark.parametrize(("problem", "sent"), BROKEN.items(), ids=list(BROKEN))
async def test_a_frame_that_breaks_a_rule_is_found(problem: str, sent: list[Sent]) -> None:
    found = await find_problems(sent)
    assert problem in "\n".join(found)


async def test_a_client_that_shows_subagents_gets_them_announced_first() -> None:
    capable = request(0, "initialize", protocolVersion=1, clientCapabilities={"subagents": {}})
    begin: list[Sent] = [("client", capable), *BEGIN[1:]]
    announced = update("subagent_update", sessionId="child", title="Count", state={"state": "running"})
    traffic = update("plan", "child", entries=[])
    assert await find_problems([*begin, ("agent", announced), ("agent", traffic)], unstable=True) == []
    [problem] = await find_problems([*begin, ("agent", traffic), ("agent", announced)], unstable=True)
    assert "which this client does not have" in problem


@asynccontextmanager
async def plain_agent(
    folder: Path, wrong: str = "", policy: Policy = ALLOW
) -> AsyncIterator[tuple[ProcessClient, str]]:
    command = (sys.executable, str(PROGRAM), wrong)
    opening = open_client(command, cwd=folder, env=os.environ, schema=await load_schema(), policy=policy)
    async with opening as client:
        await client.initialize()
        yield client, await client.new_session(folder)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [(ALLOW, "yes"), (choose("reject_once"), "no"), (cancel, "cancelled")],
    ids=["allow", "reject", "cancel"],
)
async def test_the_client_answers_permissions_and_shows_what_came(
    tmp_path: Path, policy: Policy, answer: str
) -> None:
    async with plain_agent(tmp_path, policy=policy) as (client, session_id):
        assert await client.prompt(session_id, "hi") == "end_turn"
        assert client.text(session_id) == f"It was {answer}."
        assert client.plan(session_id) == [("Look", "pending")]
        [call] = client.calls(session_id).values()
        assert (call["title"], call["status"]) == ("Edit a.txt", "completed")
        assert len(client.asks) == 1


async def test_the_client_answers_a_permission_later(tmp_path: Path) -> None:
    async with plain_agent(tmp_path, policy=hold) as (client, session_id):
        prompted = client.post_prompt(session_id, "hi")
        ask = await client.next_ask()
        assert not prompted.done()
        client.answer(ask, CANCELLED)
        await client.until_text(session_id, "cancelled")
        assert await prompted == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("field", "'odd' was unexpected"),
        ("line", "a line is no JSON: b'Traceback"),
        ("update", "c2 is updated before it begins"),
        ("response", "PromptResponse['stopReason']"),
        ("method", "'qwen/notify/done' is no request"),
    ],
)
async def test_the_client_fails_a_test_for_a_wrong_frame(tmp_path: Path, wrong: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(problem)):
        await talk(tmp_path, wrong)


async def talk(folder: Path, wrong: str) -> None:
    async with plain_agent(folder, wrong) as (client, session_id):
        await client.prompt(session_id, "hi")


async def test_the_client_tells_why_an_agent_ended(tmp_path: Path) -> None:
    async with plain_agent(tmp_path, "exit") as (client, session_id):
        prompted = client.post_prompt(session_id, "hi")
        with pytest.raises(AssertionError, match="out of order"):
            await client.until_text(session_id, "never")
        with pytest.raises(ConnectionResetError):
            await prompted
