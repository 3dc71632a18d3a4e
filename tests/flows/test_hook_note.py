"""A note that a plugin appends to an answer makes the turn go on, if it begins as one of the system."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.id import SessionId
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.llm.model import (
    ChatRequest,
    Finish,
    ModelEvent,
    ModelTurn,
    StepFinish,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    UserTurn,
)
from asyncagents.llm.scripted import ScriptedModel, call, fail, say
from asyncagents.plugins.api import Plugin
from tests.support.project import build_plugin, open_plugin_project
from tests.support.runtime import Stage, answer_of, open_stage
from tests.support.tool import OPEN_TODOS, read_nudges, write_todos
from tests.support.wait import PATIENCE

NOTE = "\n\n[SYSTEM]: one file is left. Continue!"
GO_ON = prompt_text("note-go-on")
Both = dict[str, Any]


def noting(note: str = NOTE, *, on: str = "") -> Plugin:
    """Appends a note to every text that has this in it."""

    async def hook(input: Both, output: Both) -> None:
        if on in output["text"]:
            output["text"] += note

    return build_plugin({"experimental.text.complete": hook})


async def continued(at: Stage) -> int:
    """How often the model was told to go on."""
    entries = [entry for entry in await at.messages() if isinstance(entry.info, UserMessage)]
    texts = [part for entry in entries for part in entry.parts if isinstance(part, TextPart)]
    return len([part for part in texts if part.synthetic and part.text == GO_ON])


class Streaming(ScriptedModel):
    """Says these texts in one step, each a part of its own, and ends so; None: never."""

    def __init__(self, finish: Finish | None, *texts: str) -> None:
        super().__init__({})
        self._finish, self._texts = finish, texts

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        for key, text in enumerate(self._texts):
            yield TextStart(str(key))
            yield TextDelta(str(key), text)
            yield TextEnd(str(key))
        if self._finish is None:
            await asyncio.Event().wait()
        else:
            yield StepFinish(self._finish)


@pytest.mark.spec("C-08")
async def test_a_system_note_at_the_end_of_an_answer_continues_the_turn(tmp_path: Path) -> None:
    script = {"go": [[say("Half done.")], [say("All done.")]]}
    async with open_plugin_project(tmp_path, script, noting(on="Half")) as at:
        answer = await at.prompt("go")
        entries = await at.messages()
    assert answer.text == "All done."
    assert entries[1].text == f"Half done.{NOTE}"
    assert at.request_messages(1)[1:] == [ModelTurn((TextBlock(f"Half done.{NOTE}"),)), UserTurn(GO_ON)]
    assert len(at.model.requests) == 2


@pytest.mark.spec("C-08")
@pytest.mark.parametrize(
    "note", ["\n\n(the house)", " See [SYSTEM] above.", "\n\n(the house) [SYSTEM] go on"]
)
async def test_another_note_at_the_end_of_an_answer_continues_nothing(tmp_path: Path, note: str) -> None:
    async with open_plugin_project(tmp_path, {"go": [[say("Done.")], [say("Again.")]]}, noting(note)) as at:
        answer = await at.prompt("go")
    assert answer.text == f"Done.{note}"
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-08")
async def test_a_system_note_written_by_the_model_continues_nothing(tmp_path: Path) -> None:
    script = {"go": [[say(f"Done.{NOTE}")], [say("Again.")]]}
    async with open_plugin_project(tmp_path, script, noting("\n\n(the house)")) as at:
        await at.prompt("go")
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-08", "C-09")
@pytest.mark.parametrize(("setting", "times"), [(3, 3), (0, 10)])
async def test_notes_continue_a_turn_up_to_a_limit_and_each_prompt_resets_it(
    tmp_path: Path, setting: int, times: int
) -> None:
    script = {"go": [[say(f"{n}.")] for n in range(20)], "again": [[say(f"{n}!")] for n in range(20)]}
    async with open_plugin_project(tmp_path, script, noting(), todo_enforcer=setting) as at:
        await at.prompt("go")
        first = await continued(at)
        await at.prompt("again")
        second = await continued(at)
    assert first == times
    assert second == 2 * times
    assert len(at.model.requests) == 2 * (times + 1)


@pytest.mark.spec("C-08", "C-09")
async def test_notes_and_reminders_of_todos_share_their_limit(tmp_path: Path) -> None:
    work = [step for n in range(9) for step in ([call("read", filePath=f"{n}")], [say(f"{n}.")])]
    script = {"go": [[write_todos(OPEN_TODOS)], [say("Half.")], *work]}
    async with open_plugin_project(tmp_path, script, noting(on="Half"), todo_enforcer=3) as at:
        await at.prompt("go")
        told = (await continued(at), len(await read_nudges(at)))
    assert told == (1, 2)


@pytest.mark.spec("C-08")
@pytest.mark.parametrize(("texts", "requests"), [(("One.", "Last."), 2), (("Last.", "One."), 1)])
async def test_only_a_note_on_the_last_text_of_a_step_continues_it(
    tmp_path: Path, texts: tuple[str, ...], requests: int
) -> None:
    model = Streaming("stop", *texts)
    plugins = [noting(on="Last")]
    config = Config(data_dir=tmp_path, todo_enforcer=1)
    async with open_stage(tmp_path, model, coding=config, plugins=plugins) as at:
        await at.prompt("go")
    assert len(at.model.requests) == requests


@pytest.mark.spec("C-08")
async def test_a_note_on_a_step_that_calls_tools_adds_nothing(tmp_path: Path) -> None:
    script = {"go": [[say("Half."), call("echo", text="x")], [say("Done.")]]}
    async with open_plugin_project(tmp_path, script, noting(on="Half")) as at:
        answer = await at.prompt("go")
        assert await continued(at) == 0
    assert answer.text == "Done."


@pytest.mark.spec("C-08")
async def test_no_note_continues_a_turn_that_failed_was_cut_short_or_was_aborted(tmp_path: Path) -> None:
    async with open_plugin_project(
        tmp_path, {"go": [[say("Half."), fail("no")], [say("Again.")]]}, noting()
    ) as at:
        answer = await at.prompt("go")
        assert await continued(at) == 0
    assert answer_of(answer).error is not None
    for finish in ("length", "content-filter", None):
        config = Config(data_dir=tmp_path / f"{finish}")
        model = Streaming(finish, "Half.")
        async with open_stage(tmp_path / f"{finish}", model, coding=config, plugins=[noting()]) as at:
            await at.runtime.send(at.session_id, "go")
            await at.listener.until_text("Half.")
            assert finish is not None or await at.abort()
            await at.runtime.wait(at.session_id)
            assert await continued(at) == 0
            assert await at.status() == Idle()
        assert len(model.requests) == 1


@pytest.mark.spec("C-08", "S-06")
async def test_no_note_continues_a_turn_beyond_the_steps_of_its_agent(tmp_path: Path) -> None:
    agent = {"build": AgentConfig(steps=2)}
    async with open_plugin_project(
        tmp_path, {"go": [[say(f"{n}.")] for n in range(9)]}, noting(), agent=agent
    ) as at:
        await at.prompt("go")
    assert len(at.model.requests) == 2


@pytest.mark.spec("C-08", "S-07")
async def test_no_note_continues_a_structured_answer(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    script = {"go": [[say("Here."), call("StructuredOutput", city="Rome")], [say("Again.")]]}
    async with open_plugin_project(tmp_path, script, noting()) as at:
        entry = await at.runtime.prompt(at.session_id, "go", format=form)
    assert answer_of(entry).structured == {"city": "Rome"}
    assert len(at.model.requests) == 1


class Ending(ScriptedModel):
    """Says half of it; what comes after is said to a process that has begun since."""

    def __init__(self) -> None:
        super().__init__({"go": [[say("Half.")]]})
        self.asked_again = asyncio.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.messages[-1] == UserTurn(GO_ON):
            self.asked_again.set()
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


@pytest.mark.spec("C-08", "X-11")
async def test_a_turn_that_a_note_continues_goes_on_in_the_next_process(tmp_path: Path) -> None:
    model, config = Ending(), Config(data_dir=tmp_path)
    async with open_stage(tmp_path, model, coding=config, plugins=[noting(on="Half")]) as at:
        await at.runtime.send(at.session_id, "go")
        async with asyncio.timeout(PATIENCE):
            await model.asked_again.wait()
    last = await answered_later(tmp_path, at.session_id, config)
    assert last == "All done."


async def answered_later(data: Path, session_id: SessionId, config: Config) -> str:
    model = ScriptedModel({"go": [[say("?")], [say("All done.")]]})
    async with open_stage(data, model, coding=config, plugins=[noting(on="Half")]) as at:
        async with asyncio.timeout(PATIENCE):
            await at.runtime.wait(session_id)
        entries = await at.runtime.messages(session_id)
    assert [told for told in model.requests[0].messages if told == UserTurn(GO_ON)] == [UserTurn(GO_ON)]
    return entries[-1].text
