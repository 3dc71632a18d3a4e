"""Keys from every door: a repeat gets the first answer, other content under the same key a 409."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents import Attachment, call, say
from asyncagents.client import Client, open_client
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part_input import FileInput, PartInput, TextInput
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.id import Ids, PartId
from asyncagents.errors import Conflict, KeyReused
from asyncagents.llm.scripted import ScriptedModel, pause
from tests.support.delegation import launch_task, task_named, wait_until_quiet
from tests.support.http.client import Response
from tests.support.http.cutting_proxy import open_cutting_proxy
from tests.support.http.server import StageClient, serve_delegation
from tests.support.runtime import Stage, open_runtime, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

SCRIPT = {"one": [[say("1")]], "two": [[say("2")]]}


async def post(at: StageClient, path: str, body: Any, key: str | None = None) -> Response:
    headers = at.authorization | ({"idempotency-key": key} if key else {})
    return await at.request("POST", path, body=body, headers=headers)


async def test_a_prompt_with_other_content_under_the_same_key_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT) as at:
        first = await at.prompt("one", key="k")
        assert (await at.prompt("one", key="k")).info.id == first.info.id
        for more in ({}, {"agent": "plan"}, {"system": "Be brief."}, {"tools": {"bash": False}}):
            text = "one" if more else "two"
            with pytest.raises(KeyReused):
                await at.runtime.send(at.session_id, text, key="k", **more)
        with pytest.raises(KeyReused):
            await at.runtime.send(at.session_id, "one", key="k", wakes=False)
        assert len(await at.messages()) == 2


async def test_equivalent_content_under_the_same_key_is_the_same_prompt(tmp_path: Path) -> None:
    """A model by name or reference, parts under other ids, a path as a text or a `Path`."""
    file = tmp_path / "a.txt"
    file.write_text("first")
    ref = ModelRef(provider_id="scripted", model_id="scripted")
    async with open_runtime(tmp_path / "data", model=ScriptedModel(SCRIPT), coding=True) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        along = FileInput(mime="text/plain", url=file.as_uri())
        parts: list[PartInput] = [TextInput(text="hm", id=PartId("prt_1")), along]
        first = await runtime.send(
            session.id, "one", key="k", model="scripted/scripted", files=[str(file)], parts=parts, wakes=False
        )
        file.write_text("what a file says now is not what was given")
        parts = [TextInput(text="hm", id=PartId("prt_2")), along]
        again = await runtime.send(
            session.id, "one", key="k", model=ref, files=[file], parts=parts, wakes=False
        )
        with pytest.raises(KeyReused):
            await runtime.send(session.id, "one", key="k", model=ref, files=[file], wakes=False)
        assert again == first

        picture = Attachment(mime="image/png", url="data:image/png;base64,AAAA")
        other = Attachment(mime="image/png", url="data:image/png;base64,AAAB")
        await runtime.send(session.id, "two", key="p", files=[picture], wakes=False)
        await runtime.send(session.id, "two", key="p", files=[picture], wakes=False)
        with pytest.raises(KeyReused):
            await runtime.send(session.id, "two", key="p", files=[other], wakes=False)


async def test_a_message_id_with_other_content_is_refused(tmp_path: Path) -> None:
    named = Ids(SystemClock(), SystemRng()).message()
    async with open_stage(tmp_path, SCRIPT) as at:
        assert await at.runtime.send(at.session_id, "one", message_id=named) == named
        assert await at.runtime.send(at.session_id, "one", message_id=named) == named
        with pytest.raises(Conflict):
            await at.runtime.send(at.session_id, "two", message_id=named)
        await at.runtime.wait(at.session_id)


async def test_other_content_under_the_key_of_a_session_or_fork_is_refused(tmp_path: Path) -> None:
    deny = Rule(permission="bash", pattern="*", action="deny")
    async with open_stage(tmp_path, SCRIPT) as at:
        runtime = at.runtime
        made = await runtime.create_session(title="A", directory=tmp_path, key="k")
        assert (await runtime.create_session(title="A", directory=tmp_path, key="k")).id == made.id
        for other in ({"title": "B"}, {"title": "A", "permission": (deny,)}):
            with pytest.raises(KeyReused):
                await runtime.create_session(directory=tmp_path, key="k", **other)

        begun = await runtime.begin("one", directory=tmp_path, key="b")
        session, message_id = await runtime.begin("one", directory=tmp_path, key="b")
        assert session.id == begun[0].id
        assert message_id == begun[1]
        for text, title in (("two", None), ("one", "Mine")):
            with pytest.raises(KeyReused):
                await runtime.begin(text, title=title, directory=tmp_path, key="b")
        await runtime.wait(begun[0].id)

        fork = await runtime.conversations.fork(begun[0].id, key="f")
        assert (await runtime.conversations.fork(begun[0].id, key="f")).id == fork.id
        with pytest.raises(KeyReused):
            await runtime.conversations.fork(begun[0].id, before=begun[1], key="f")

        part = await runtime.conversations.fork(begun[0].id, before=begun[1], key="part")
        await runtime.conversations.remove_message(begun[0].id, begun[1])
        again = await runtime.conversations.fork(begun[0].id, before=begun[1], key="part")
        assert again.id == part.id, "what it was made of is gone, and it is there"


async def test_over_http_other_content_is_a_409_and_the_same_body_the_same_answer(tmp_path: Path) -> None:
    one, two = {"parts": [{"type": "text", "text": "one"}]}, {"parts": [{"type": "text", "text": "two"}]}
    async with serve_delegation(tmp_path, SCRIPT) as at:
        session = f"/session/{at.stage.session_id}"
        said = [await post(at, f"{session}/message", body, "k") for body in (one, one, two)]
        typed = [
            await post(at, f"/v1/sessions/{at.stage.session_id}/prompts", {"prompt": text}, "p")
            for text in ("one", "one", "two")
        ]
        made = [await post(at, "/session", {"title": title}, "s") for title in "AAB"]
        begun = [await post(at, "/v1/sessions", {"prompt": text}, "b") for text in ("hi", "hi", "ho")]
        forks = [
            await post(at, f"{session}/fork", body, "f")
            for body in ({}, {}, {"messageID": said[0].json["info"]["parentID"]})
        ]
        for each in (at.stage.session_id, begun[0].json["session"]["id"]):
            await wait_until_quiet(at.runtime, each)
    for first, again, other in (said, typed, made, begun, forks):
        assert first.status == 200, other
        assert again.status == 200, other
        assert other.status == 409, other
        assert _names(again.json) == _names(first.json)
        assert "was used for another request" in other.json["data"]["message"]
    assert said[2].json["name"] == "ConflictError"


def _names(told: Any) -> list[str]:
    """Ids alone: a session's title and times go on."""
    found = [told.get("id"), told.get("messageID"), told.get("info", {}).get("id")]
    return [*found, told.get("session", {}).get("id")]


async def test_opencode_clients_repeat_a_message_id_with_the_same_body(tmp_path: Path) -> None:
    ids = Ids(SystemClock(), SystemRng())
    body: dict[str, Any] = {
        "messageID": ids.message(),
        "parts": [{"type": "text", "text": "one", "id": ids.part()}],
    }
    other = body | {"parts": [{"type": "text", "text": "two"}]}
    async with serve_delegation(tmp_path, SCRIPT) as at:
        session = f"/session/{at.stage.session_id}"
        said = [await post(at, f"{session}/message", each) for each in (body, body, other)]
    assert [each.status for each in said] == [200, 200, 409]
    assert said[0].json == said[1].json


@pytest.mark.spec("C-10")
@pytest.mark.parametrize("path", ["/session/{id}/abort", "/v1/sessions/{id}/abort"])
async def test_an_abort_repeated_under_its_key_spares_the_next_turn(tmp_path: Path, path: str) -> None:
    scenes = {"one": [[say("I beg"), pause(3600)]], "two": [[call("gate")], [say("2")]]}
    gate = Gate("gate")
    async with serve_delegation(tmp_path, scenes, gate.tool) as at:
        where = path.format(id=at.stage.session_id)
        await at.runtime.send(at.stage.session_id, "one")
        await at.stage.listener.until_text("I beg")
        first = await post(at, where, {}, "k")
        await at.runtime.send(at.stage.session_id, "two")
        await gate.until_started()
        again = await post(at, where, {}, "k")
        gate.go.set()
        async with asyncio.timeout(PATIENCE):
            await at.runtime.wait(at.stage.session_id)
        last = (await at.stage.messages())[-1]
    assert first.status == 200
    assert again.status == 200
    assert again.json == first.json
    assert last.text == "2"


@pytest.mark.spec("C-10")
async def test_a_cancel_of_a_task_that_is_repeated_under_its_key_spares_its_next_run(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes = {
        "go": [[launch_task("A", "child a")], *[[say("ok")]] * 5],
        "child a": [[say("Hm"), pause(3600)]],
        "more": [[call("gate")], [say("More.")]],
    }
    async with serve_delegation(tmp_path, scenes, gate.tool) as at:
        await at.stage.prompt("go")
        task = await task_named(at.runtime, "A")
        cancel = f"/v1/tasks/{task.session_id}/cancel"
        assert (await post(at, cancel, {}, "k")).status == 200
        resume = f"/v1/tasks/{task.session_id}/resume"
        followed = [await post(at, resume, {"prompt": text}, "r") for text in ("more", "more", "other")]
        await gate.until_started()
        again = await post(at, cancel, {}, "k")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)
        after = await at.runtime.tasks.get(task.session_id)
    assert [each.status for each in followed] == [200, 200, 409]
    assert again.status == 200
    assert after.status == "completed"


@pytest.mark.spec("C-10")
async def test_a_client_repeats_an_abort_whose_answer_was_lost_under_the_same_key(tmp_path: Path) -> None:
    keys: list[bytes] = []

    def cut(asked: bytes, said: bytes) -> bool:
        if b"/abort" not in asked.partition(b"\r\n")[0]:
            return False
        head = asked.lower().partition(b"idempotency-key: ")[2]
        keys.append(head.partition(b"\r\n")[0])
        return len(keys) == 1

    async with serve_delegation(tmp_path, {}) as at, open_cutting_proxy(at.listing.url) as cutter:
        cutter.cut = cut
        async with open_client(cutter.url, token=at.listing.token, patience=PATIENCE) as client:
            assert await client.abort(at.stage.session_id)
            await _abort_twice(client, at.stage)
    assert len(keys) >= 2
    assert keys[0] == keys[1] != b""


async def _abort_twice(client: Client, at: Stage) -> None:
    """A caller's own key is kept to."""
    assert await client.abort(at.session_id, key="mine")
    with pytest.raises(Conflict):
        await client.abort(at.session_id, key="mine", scope="turn")
