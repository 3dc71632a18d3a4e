"""Sessions over HTTP: prompts and their answers, asks, aborts, and what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.event import PermissionAsked, SessionIdle
from asyncagents.llm.scripted import call, say
from tests.support.http.opencode import HELLO, entry_text, text_prompt
from tests.support.http.server import serve_stage
from tests.support.tool import CAREFUL, Gate


async def test_a_session_is_made_prompted_read_and_deleted(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        made = await at.post("/session", {"title": "Mine"}, headers={"idempotency-key": "one"})
        again = await at.post("/session", {"title": "Mine"}, headers={"idempotency-key": "one"})
        where = f"/session/{made.json['id']}"
        answer = await at.post(f"{where}/message", text_prompt("hi"), headers={"idempotency-key": "k"})
        same = await at.post(f"{where}/message", text_prompt("hi"), headers={"idempotency-key": "k"})
        messages = (await at.get(f"{where}/message")).json
        one = await at.get(f"{where}/message/{messages[0]['info']['id']}")
        newest = (await at.get(f"{where}/message?limit=1")).json
        listed = [each["id"] for each in (await at.get("/session?roots=true&limit=10")).json]
        found = await at.get(where)
        todo = await at.get(f"{where}/todo")
        gone = [(await at.request("DELETE", where)).json, (await at.get(where)).status]

    assert made.json == again.json
    assert made.json["title"] == "Mine"
    assert entry_text(answer.json) == "Hello."
    assert answer == same
    assert [each["info"]["role"] for each in messages] == ["user", "assistant"]
    assert one.json == messages[0]
    assert newest == messages[1:]
    assert made.json["id"] in listed
    assert found.json["directory"] == str(tmp_path)
    assert todo.status == 200
    assert todo.json == []
    assert gone == [True, 404]


@pytest.mark.spec("O-03")
async def test_routes_of_an_unknown_session_return_404(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        nowhere = [
            (await at.get(f"/session/ses_none/{what}")).status
            for what in ("todo", "children", "message", "message/msg_none")
        ]
        state = (await at.get("/v1/sessions/ses_none")).status
        why = (await at.get("/v1/sessions/ses_none/why")).status
        events = (await at.get("/v1/sessions/ses_none/events")).status

    assert nowhere == [404] * 4
    assert state == 404
    assert why == 404
    assert events == 404


async def test_an_async_prompt_is_answered_and_a_no_reply_prompt_is_only_stored(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        where = f"/session/{at.stage.session_id}"
        sent = await at.post(f"{where}/prompt_async", text_prompt("hi"))
        await at.stage.listener.until(SessionIdle)
        kept = await at.post(f"{where}/message", {**text_prompt("note"), "noReply": True})
        after = await at.stage.messages()

    assert sent.status == 204
    assert sent.json is None
    assert kept.status == 200
    assert kept.json["info"]["role"] == "user"
    assert [entry.text for entry in after] == ["hi", "Hello.", "note"]


async def test_a_disconnect_does_not_cancel_the_turn(tmp_path: Path) -> None:
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Through.")]]}
    async with serve_stage(tmp_path, script, tools=[gate.tool]) as at:
        where = f"/session/{at.stage.session_id}/message"
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(at.post(where, text_prompt("go"), headers={"idempotency-key": "k"}))
            await gate.until_started()
            waiting.cancel()
        gate.go.set()
        answer = await at.post(where, text_prompt("go"), headers={"idempotency-key": "k"})

    assert entry_text(answer.json) == "Through."
    assert gate.runs == 1


async def test_a_waiting_request_gets_503_when_the_server_stops(tmp_path: Path) -> None:
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Through.")]]}
    async with asyncio.TaskGroup() as group, serve_stage(tmp_path, script, tools=[gate.tool]) as at:
        waiting = group.create_task(at.post(f"/session/{at.stage.session_id}/message", text_prompt("go")))
        await gate.until_started()
    said = waiting.result()

    assert said.status == 503
    assert "Idempotency-Key" in said.json["data"]["message"]


async def test_an_ask_is_listed_and_answered_once(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="rm")], [say("Done.")]]}
    async with serve_stage(tmp_path, script, tools=[CAREFUL]) as at:
        await at.post(f"/session/{at.stage.session_id}/prompt_async", text_prompt("go"))
        await at.stage.listener.until(PermissionAsked)
        (asked,) = (await at.get("/permission")).json
        waiting = (await at.get(f"/v1/asks?sessionID={at.stage.session_id}")).json
        elsewhere = (await at.get("/permission?directory=/elsewhere")).json
        reply = f"/permission/{asked['id']}/reply"
        wrong = [
            (await at.post(reply, {"reply": "perhaps"})).status,
            (await at.post(reply, {"reply": "once", "message": "why not"})).status,
            (await at.post("/permission/per_none/reply", {"reply": "once"})).status,
        ]
        answered = [(await at.post(reply, {"reply": "once"})).json for _ in range(2)]
        other = await at.post(f"/v1/asks/{asked['id']}/answer", {"reply": "reject"})
        await at.stage.listener.until(SessionIdle)

    assert asked["permission"] == "echo"
    assert [each["call"]["ask_id"] for each in waiting] == [asked["id"]]
    assert elsewhere == []
    assert wrong == [400, 400, 404]
    assert answered == [True, True]
    assert other.status == 409


async def test_v1_routes_begin_a_session_and_report_its_state(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        begun = await at.post(
            "/v1/sessions", {"prompt": "hi", "title": "T"}, headers={"idempotency-key": "b"}
        )
        again = await at.post(
            "/v1/sessions", {"prompt": "hi", "title": "T"}, headers={"idempotency-key": "b"}
        )
        session_id = begun.json["session"]["id"]
        await at.stage.listener.until(SessionIdle)
        answer = await at.get(f"/v1/messages/{begun.json['messageID']}/answer")
        state = (await at.get(f"/v1/sessions/{session_id[4:20]}?prefix=true")).json
        tree = (await at.get(f"/v1/sessions/{session_id}/tree")).json
        sent = await at.post(f"/v1/sessions/{session_id}/prompts", {"prompt": "again"})
        await at.stage.listener.until(SessionIdle)
        stopped = await at.post(f"/v1/sessions/{session_id}/abort", {"scope": "turn"})
        why = (await at.get(f"/v1/sessions/{session_id}/why")).json

    assert begun.json["messageID"] == again.json["messageID"]
    assert entry_text(answer.json["answer"]) == "Hello."
    assert state["session"]["id"] == session_id
    assert state["rootID"] == session_id
    assert state["status"] == {"type": "idle"}
    assert state["atWork"] is False
    assert state["isRun"] is False
    assert [each["id"] for each in tree] == [session_id]
    assert sent.json["messageID"].startswith("msg_")
    assert stopped.json == {"stopped": True}
    assert why["code"] in ("idle", "aborted")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"parts": []}',
        b'{"parts": [{"type": "text"}]}',
        b'{"parts": [{"type": "nothing", "text": "x"}]}',
        b'{"parts": [{"type": "text", "text": "x"}], "system": 5}',
        b'{"parts": [{"type": "text", "text": "x"}], "tools": {"bash": "no"}}',
        b'{"parts": [{"type": "text", "text": "x"}], "messageID": "msg_mine"}',
        b'{"parts": [{"type": "text", "text": "x"}], "messageID": "prt_019a8d0000010123456789abcd"}',
        b'{"parts": [{"type": "text", "text": "x", "id": "mine"}]}',
        b'{"parts": [{"type": "text", "text": "x"}], "model": "a/b"}',
        b'{"parts": [{"type": "text", "text": "\\ud800"}]}',
        b'{"parts": [{"type": "text", "text": "\\u0000"}]}',
        b'{"parts": [{"type": "file", "mime": "text/plain", "url": "file:///etc/hostname"}]}',
        b'{"parts": [{"type": "file", "mime": "text/plain", "url": "gopher://x"}]}',
        b'{"parts": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"parts": [' + b", ".join([b'{"type": "text", "text": "x"}'] * 1_001) + b"]}",
        b'{"parts": [{"type": "text", "text": "\xff"}]}',
    ],
)
async def test_an_invalid_prompt_is_refused_and_nothing_is_stored(tmp_path: Path, body: bytes) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        where = f"/session/{at.stage.session_id}"
        statuses = [
            await at.send_raw("POST", f"{where}/{kind}", body) for kind in ("message", "prompt_async")
        ]
        messages = await at.stage.messages()

    assert statuses == [400, 400]
    assert messages == ()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/session", {"agent": 5}),
        ("POST", "/session", {"model": {"id": "x"}}),
        ("POST", "/session", {"workspaceID": "wrk_1"}),
        ("GET", "/session?scope=world", None),
        ("GET", "/session?path=../..", None),
        ("GET", "/session?start=yesterday", None),
        ("GET", "/experimental/session?cursor=-1", None),
        ("GET", "/session/{id}/message?limit=-1", None),
        ("GET", "/session/{id}/message?before=x", None),
        ("GET", "/session/{id}/message?limit=2&before=x", None),
        ("PATCH", "/session/{id}", {"title": 5}),
        ("PATCH", "/session/{id}", {"time": {"archived": "now"}}),
        ("POST", "/session/{id}/fork", {"messageID": 5}),
        ("POST", "/session/{id}/share", {}),
        ("POST", "/session/{id}/permissions/per_x", {"response": "perhaps"}),
        ("POST", "/session", {"directory": "relative"}),
        ("GET", "/session?limit=0", None),
        ("GET", "/session?limit=x", None),
        ("GET", "/session?roots=perhaps", None),
        ("GET", "/session?limit=1&limit=2", None),
        ("POST", "/v1/sessions", {}),
        ("POST", "/v1/sessions", {"prompt": 1}),
        ("POST", "/v1/sessions", {"prompt": "x", "permission": [{"permission": "bash"}]}),
        ("POST", "/v1/sessions/{id}/abort", {"seconds": -1}),
        ("POST", "/v1/sessions/{id}/abort", {"scope": "world"}),
        ("GET", "/v1/sessions/{id}/events?after=nonsense", None),
        ("GET", "/v1/sessions/{id}/events?tree=perhaps", None),
    ],
)
async def test_an_invalid_request_is_refused_with_a_message(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        said = await at.request(method, path.format(id=at.stage.session_id), body)

    assert said.status == 400
    assert said.json["data"]["message"]


async def test_an_idempotency_key_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        said = await at.post("/session", {}, headers={"idempotency-key": "k" * 201})

    assert said.status == 400


async def test_the_directory_comes_in_the_query_or_the_header(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        named = await at.post("/session?directory=/some/where", {})
        header = await at.post("/session", {}, headers={"x-opencode-directory": "%2Fsome%2Fwhere%20else"})

    assert named.json["directory"] == "/some/where"
    assert header.json["directory"] == "/some/where else"


async def test_session_routes_except_why_require_the_token(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        no: dict[str, str] = {"authorization": "Bearer no"}
        refused = [
            (await at.request("GET", "/session", headers=no)).status,
            (await at.request("POST", "/session", {}, headers=no)).status,
            (await at.request("GET", f"/v1/sessions/{at.stage.session_id}/events", headers=no)).status,
        ]
        why = (await at.request("GET", f"/v1/sessions/{at.stage.session_id}/why", headers=no)).status

    assert refused == [401, 401, 401]
    assert why == 200
