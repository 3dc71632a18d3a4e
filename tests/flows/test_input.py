"""Input: stored and shown at once, answered together, and never twice under one key."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.event import MessageUpdated, PartUpdated, SessionIdle
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import call, say
from tests.support.runtime import Stage, open_stage, roles
from tests.support.tool import Gate

SCRIPT = {"go": [[call("gate")]], "second": [[call("gate")]], "last": [[say("All of it.")]]}


async def until_shown(at: Stage, *texts: str) -> None:
    for text in texts:
        await at.listener.until(PartUpdated, lambda event, text=text: getattr(event.part, "text", "") == text)  # type: ignore[misc]


@pytest.mark.spec("S-12")
async def test_prompts_to_a_busy_session_are_shown_at_once_and_answered_by_one_turn(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        prompts = [asyncio.ensure_future(at.prompt("go"))]
        await gate.until_started()
        prompts += [asyncio.ensure_future(at.prompt(text)) for text in ("more", "and more", "last")]
        await until_shown(at, "more", "and more", "last")
        shown = [entry.text for entry in await at.messages()]
        gate.go.set()
        answers = await asyncio.gather(*prompts)

    assert shown == ["go", "", "more", "and more", "last"]
    assert {answer.info.id for answer in answers} == {answers[0].info.id}
    assert answers[0].text == "All of it."
    assert at.request_messages()[-3:] == [UserTurn("more"), UserTurn("and more"), UserTurn("last")]
    assert len(at.model.requests) == 2


@pytest.mark.spec("S-12")
async def test_no_prompt_is_dropped_when_many_come_at_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        texts = [f"number {n}" for n in range(40)]
        answers = await asyncio.gather(*(at.prompt(text) for text in texts))
        messages = await at.messages()

    assert [answer.text for answer in answers] == ["ok"] * 40
    assert sorted(entry.text for entry in messages if entry.text != "ok") == sorted(texts)
    assert sorted(told.text for told in at.request_messages() if isinstance(told, UserTurn)) == sorted(texts)


@pytest.mark.spec("S-12")
async def test_the_model_reads_prompts_in_the_order_in_which_they_were_admitted(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        sent = [await at.runtime.send(at.session_id, text) for text in ("x", "y", "z")]
        gate.go.set()
        await prompt

    assert sent == sorted(sent)
    assert [told.text for told in at.request_messages() if isinstance(told, UserTurn)] == [
        "go",
        "x",
        "y",
        "z",
    ]


@pytest.mark.spec("S-14")
async def test_the_same_key_creates_one_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        first, again, other = await asyncio.gather(
            at.runtime.create_session(directory=tmp_path, title="mine", key="k1"),
            at.runtime.create_session(directory=tmp_path, title="mine", key="k1"),
            at.runtime.create_session(directory=tmp_path, key="k2"),
        )
        listed = await at.runtime.sessions(tmp_path)

    assert first == again
    assert {session.id for session in listed} == {at.session_id, first.id, other.id}


@pytest.mark.spec("S-14")
async def test_the_same_key_prompts_once_and_is_answered_alike(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("Hi.")]]}) as at:
        first, again = await asyncio.gather(at.prompt("hello", key="k1"), at.prompt("hello", key="k1"))
        late = await at.prompt("hello", key="k1")
        with pytest.raises(Conflict, match="k1"):
            await at.prompt("something else", key="k1")
        messages = await at.messages()

    assert first == again == late
    assert roles(messages) == ["user", "assistant"]
    assert len(at.model.requests) == 1


@pytest.mark.spec("S-14")
async def test_a_key_that_is_still_being_answered_waits_for_the_answer(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, {"go": [[call("gate")], [say("Done.")]]}, tools=[gate.tool]) as at:
        first = asyncio.ensure_future(at.prompt("go", key="k1"))
        await gate.until_started()
        again = asyncio.ensure_future(at.prompt("go", key="k1"))
        sent = await at.runtime.send(at.session_id, "go", key="k1")
        gate.go.set()
        assert (await first) == (await again)
        question, *_ = await at.messages()

    assert sent == question.info.id
    assert len(at.model.requests) == 2


@pytest.mark.spec("S-14")
async def test_a_key_belongs_to_its_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        other = await at.runtime.create_session(directory=tmp_path)
        one = await at.prompt("to one", key="k1")
        two = await at.runtime.prompt(other.id, "to the other", key="k1")

    assert one.info.id != two.info.id


async def test_input_that_does_not_wake_is_shown_and_read_with_the_next(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"last": [[say("All of it.")]]}) as at:
        await at.runtime.send(at.session_id, "by the way", wakes=False)
        shown = [entry.text for entry in await at.messages()]
        answer = await at.prompt("last")

    assert shown == ["by the way"]
    assert answer.text == "All of it."
    assert at.request_messages(0) == [UserTurn("by the way"), UserTurn("last")]


async def test_input_that_does_not_wake_starts_no_turn_of_its_own(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, {"go": [[say("Going."), call("gate")]]}, tools=[gate.tool]) as at:
        await at.runtime.send(at.session_id, "by the way", wakes=False)
        await at.runtime.send(at.session_id, "and so on", wakes=False)
        await at.listener.until(MessageUpdated)
        await at.listener.until(MessageUpdated)
        assert at.model.requests == []
        assert await at.runtime.statuses() == {}


async def test_a_prompt_to_an_unknown_session_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        with pytest.raises(NotFound):
            await at.runtime.prompt(SessionId("ses_nobody"), "hello")
        await at.prompt("hello")
        await at.listener.until(SessionIdle)


async def test_a_prompt_without_text_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        with pytest.raises(InvalidInput, match="needs some text"):
            await at.prompt("")
        assert await at.messages() == ()
