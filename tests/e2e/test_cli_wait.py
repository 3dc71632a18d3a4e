"""A session that waits for the outside: exit 3, with what it waits for and how to come back."""

import re
from pathlib import Path

import pytest

from asyncagents import CallId, ScriptedModel, SessionId, call, open_runtime, say
from asyncagents.domain.event import PermissionAsked
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import Desk, open_desk
from tests.support.tool import CAREFUL, build_pending_tool


async def leave_waiting(desk: Desk) -> tuple[SessionId, CallId]:
    """Another program, with tools of its own, leaves a session with a call open."""
    script = {"ship": [[call("deploy")], [say("never said")]]}
    async with open_runtime(
        desk.data, model=ScriptedModel(script), tools=[build_pending_tool("deploy", note="asked Ada")]
    ) as runtime:
        session = await runtime.create_session(directory=desk.project)
        await runtime.prompt(session.id, "ship", model="local/m")
        (open_call,) = await runtime.open_calls(session.id)
    return session.id, open_call.id


@pytest.mark.spec("X-06")
async def test_an_open_call_is_named_and_its_result_is_taken_up_by_the_next_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path, otherwise=Reply(text="Shipped.")) as (desk, _):
        session_id, call_id = await leave_waiting(desk)
        waits = await desk.run("run", "--session", session_id)
        listed = await desk.run("sessions")
        asks = await desk.run("asks")
        answered = await desk.run("answer", call_id[:-3], "once")
        in_json = await desk.run("run", "--session", session_id, "--json")
        async with desk.look() as runtime:
            await runtime.complete(call_id, "v2 is live")
        went_on = await desk.run("run", "--session", session_id)

    assert waits.code == in_json.code == 3
    assert waits.err.startswith(f"session {session_id} waits; this is its last answer:\n")
    assert f"waiting: deploy waits for its result (asked Ada), {call_id} of session {session_id}" in waits.err
    assert f"`asyncagents run --session {session_id}` continues" in waits.err
    assert re.search(r"\swaiting\s", listed.out)
    assert asks.out.startswith(f"waiting for an outside result:\n{call_id}  just now  deploy  asked Ada")
    assert answered.code == 2
    assert answered.out == ""
    assert f"{call_id} waits for a result of deploy, not for a person" in answered.err
    (wait,) = in_json.json["waits"]
    assert in_json.json["status"] == "waiting"
    assert wait["call"] == call_id
    assert wait["kind"] == "async"
    assert went_on.code == 0
    assert went_on.out == "Shipped.\n"


@pytest.mark.spec("X-06")
async def test_an_ask_is_named_and_a_prompt_meanwhile_is_kept(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        script = {"go": [[call("careful", text="a")]]}
        ask_id: str = ""
        async with open_runtime(desk.data, model=ScriptedModel(script), tools=[CAREFUL]) as runtime:
            session = await runtime.create_session(directory=desk.project)
            async with runtime.events(session.id) as events:
                await runtime.send(session.id, "go", model="local/m")
                async for event in events:
                    if isinstance(event, PermissionAsked):
                        ask_id = event.request.id
                        break
        waits = await desk.run("run", "--continue", "And?")
        in_json = await desk.run("run", "--continue", "--json")
        listed = await desk.run("sessions")

    assert waits.code == 3
    assert waits.out == ""
    assert provider.asked == 0
    assert f"waiting: careful asks for the permission 'echo' (a), {ask_id}" in waits.err
    assert in_json.json["waits"][0]["ask"] == ask_id
    assert re.search(r"\sasks\s", listed.out)


async def test_a_call_of_an_unknown_tool_fails_and_the_model_goes_on(tmp_path: Path) -> None:
    steps = '[[{"steps": [{"text": "I will.", "tools": [{"name": "deploy"}]}, {"text": "Then not."}]}]]'
    async with open_desk(tmp_path) as (desk, _):
        ran = await desk.run("run", f"go {steps}")

    assert ran.code == 0
    assert ran.out == "I will.\nThen not.\n"
    assert "deploy() failed:" in ran.err
