"""A tree of sessions as whoever runs it sees it: found, begun, followed until it rests or waits."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.conversation.status import Busy, WaitingAsync
from asyncagents.domain.event import PermissionAsked
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from tests.support.runtime import open_stage
from tests.support.tool import CAREFUL, build_pending_tool
from tests.support.wait import PATIENCE


async def test_wait_tree_returns_when_a_session_asks_a_person(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL]) as at, asyncio.timeout(PATIENCE):
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert await at.runtime.wait_tree(at.session_id) == {at.session_id: Busy()}
        assert not await at.runtime.at_work(at.session_id)
        await at.runtime.answer(asked.request.id, "once")
        assert await at.runtime.wait_tree(at.session_id) == {}


async def test_wait_tree_returns_when_a_session_only_waits_for_a_result(tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path, {"go": [[call("deploy")]]}, tools=[build_pending_tool("deploy")]) as at,
        asyncio.timeout(PATIENCE),
    ):
        await at.runtime.send(at.session_id, "go")
        (status,) = (await at.runtime.wait_tree(at.session_id)).values()
        assert isinstance(status, WaitingAsync)


async def test_a_runtime_that_serves_one_tree_leaves_all_others(tmp_path: Path) -> None:
    script = {"one": [[say("One.")]], "two": [[say("Two.")]]}
    async with open_stage(tmp_path, script, serve=False) as at, asyncio.timeout(PATIENCE):
        other = await at.runtime.create_session(directory=tmp_path)
        await at.runtime.send(other.id, "two")
        one = await at.runtime.send(at.session_id, "one")
        at.runtime.serve_tree(at.session_id)
        await at.runtime.wait_tree(at.session_id)
        answer = await at.runtime.answer_to(one)
        assert answer is not None
        assert answer.text == "One."
        assert await at.runtime.at_work(other.id)
        assert len(at.model.requests) == 1


async def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        other = await at.runtime.create_session(directory=tmp_path)
        found = await at.runtime.find_session(at.session_id)
        without_prefix = await at.runtime.find_session(at.session_id.removeprefix("ses_"))
        assert found.id == at.session_id
        assert without_prefix.id == at.session_id
        with pytest.raises(InvalidInput, match="write more of the id"):
            await at.runtime.find_session("ses_")
        with pytest.raises(NotFound):
            await at.runtime.find_session("ses_zzz")
        newest_first = [session.id for session in await at.runtime.roots(tmp_path)]
        assert newest_first == [other.id, at.session_id]
        assert await at.runtime.roots("/elsewhere") == ()


async def test_a_session_begun_again_with_its_key_is_the_same_in_one_directory(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"Hi": [[say("Hello.")]]}) as at, asyncio.timeout(PATIENCE):
        first, one = await at.runtime.begin("Hi", key="k", directory=tmp_path, title="A greeting")
        again, two = await at.runtime.begin("Hi", key="k", directory=tmp_path, title="A greeting")
        elsewhere, _ = await at.runtime.begin("Hi", key="k", directory=tmp_path / "other")
        await at.runtime.wait_tree(elsewhere.id)
        await at.runtime.wait_tree(first.id)
        assert first.id == again.id
        assert one == two
        assert again.title == "A greeting"
        assert elsewhere.id != first.id
        assert len(at.model.requests) == 2


async def test_is_running_is_true_only_during_a_run(tmp_path: Path) -> None:
    model = ScriptedModel({"go": [[say("a"), pause(3600)]]})
    async with open_stage(tmp_path, model) as at, asyncio.timeout(PATIENCE):
        before = await at.runtime.is_running(at.session_id)
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("a")
        during = await at.runtime.is_running(at.session_id)
        await at.abort()
        after = await at.runtime.is_running(at.session_id)
    assert before is False
    assert during is True
    assert after is False
