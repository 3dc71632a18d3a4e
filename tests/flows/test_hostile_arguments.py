"""Whatever a model writes as arguments, it gets an answer it can act on, and the turn goes on."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.config.config import AsksConfig, Config
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.event import PermissionAsked, QuestionAsked
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import InvalidInput
from asyncagents.llm.scripted import CallTool, ScriptedModel, ScriptStep, call, say
from tests.support.hostile.argument import TEXTS, arguments
from tests.support.hostile.yard import create_yard, open_coder
from tests.support.runtime import open_runtime
from tests.support.soak import DRAWN
from tests.support.wait import PATIENCE

TOOLS = (
    *("read", "list", "glob", "grep", "edit", "write", "patch", "bash"),
    *("webfetch", "todowrite", "todoread", "question"),
)
# Nothing strange is run, and nobody is on the line who could be asked or reached.
RULES: dict[str, Any] = {
    "bash": {"*": "deny", "echo *": "allow"},
    "unclear_command": "deny",
    "webfetch": {"*": "allow", "http*": "deny", "http*://127.*": "allow", "http*://[*": "allow"},
}
# No page can be had here, no patch that was drawn fits, and nothing was read that could be edited.
NEVER_DONE = {"webfetch", "patch", "edit"}
# What a model cannot act on: the inner life of a program.
INNER = re.compile(
    r"\b[A-Z][A-Za-z]*(Error|Exception|Warning|Struct)\b|Traceback|msgspec|object at 0x|NoneType"
)


class Court:
    """One runtime in a thread of its own: opened once, used by many examples."""

    def __init__(self, tmp_path: Path) -> None:
        self._place = create_yard(tmp_path, {"a.txt": "hello\n", "src/one.py": "pass\n"})
        self._data = tmp_path / "data"
        self._script: dict[str, list[ScriptStep]] = {}
        self._ready: Future[tuple[Runtime, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        self.runtime, self._loop, self._over = self._ready.result(PATIENCE)

    async def _serve(self) -> None:
        over = asyncio.Event()
        coding = Config(
            data_dir=self._data, permission=RULES, asks=AsksConfig(policy="deny"), todo_enforcer=0
        )
        model = ScriptedModel(self._script, remember=False)
        async with open_runtime(self._data, model=model, coding=coding) as runtime:
            self._ready.set_result((runtime, asyncio.get_running_loop(), over))
            await over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def schema(self, tool: str) -> dict[str, Any]:
        place = asyncio.run_coroutine_threadsafe(self.runtime.workplace(self._place.root), self._loop)
        return place.result(PATIENCE).tools[tool].spec().parameters

    def try_all(self, calls: list[CallTool]) -> tuple[str, list[Any]]:
        """In one step of a new session; returns what the turn ended with, and what each call told."""
        text = f"go {len(self._script)}"
        self._script[text] = [calls, [say("Done.")]]
        return asyncio.run_coroutine_threadsafe(self._tried(text), self._loop).result(PATIENCE)

    async def _tried(self, text: str) -> tuple[str, list[Any]]:
        session = await self.runtime.create_session(directory=self._place.root)
        async for event in self.runtime.stream(session.id, text):
            if isinstance(event, QuestionAsked):
                await self.runtime.answer(event.request.id, [["yes"] for _ in event.request.questions])
        entries = await self.runtime.messages(session.id)
        parts = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
        return entries[-1].text, [part.state for part in parts]


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    court = Court(tmp_path_factory.mktemp("court"))
    yield court
    court.close()


def without_quotes(error: str, made: CallTool) -> str:
    """Remove the texts of the arguments, which an error may quote."""
    texts = [each for each in made.input.values() if isinstance(each, str) and each]
    for text in sorted(texts, key=len, reverse=True):
        error = error.replace(text, "")
    return error


def check(calls: list[CallTool], said: str, states: list[Any]) -> None:
    assert said == "Done."
    assert len(states) == len(calls)
    for made, state in zip(calls, states, strict=True):
        assert isinstance(state, ToolCompleted | ToolFailed), made
        if isinstance(state, ToolFailed):
            assert state.error.strip(), made
            assert INNER.search(without_quotes(state.error, made)) is None, (made, state.error)
        else:
            assert state.output.strip(), made


@pytest.mark.spec("A-05", "A-06")
@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_answers_whatever_its_arguments_are(court: Court, tool: str) -> None:
    inputs = arguments(court.schema(tool))
    if tool == "bash":
        inputs |= st.builds(lambda given, text: {**given, "command": f"echo {text}"}, inputs, TEXTS)
    ends: set[type] = set()

    @settings(
        max_examples=20 if DRAWN else 6,
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )
    @given(batch=st.lists(inputs, min_size=1, max_size=10))
    def attempt(batch: list[dict[str, Any]]) -> None:
        calls = [CallTool(tool, each) for each in batch]
        said, states = court.try_all(calls)
        check(calls, said, states)
        ends.update(map(type, states))

    attempt()
    assert ends == {ToolCompleted, ToolFailed} or tool in NEVER_DONE


@pytest.mark.spec("A-05", "A-06")
def test_a_tool_that_does_not_exist_is_answered_too(court: Court) -> None:
    @settings(max_examples=10, deadline=None)
    @given(names=st.lists(TEXTS | st.sampled_from(["Read", "read ", "bash\0"]), min_size=1, max_size=20))
    def attempt(names: list[str]) -> None:
        calls = [CallTool(name, {"x": number}) for number, name in enumerate(names)]
        said, states = court.try_all(calls)
        check(calls, said, states)
        assert all("Available: " in state.error and " bash, " in state.error for state in states)

    attempt()


@pytest.mark.spec("A-04", "A-06")
@pytest.mark.parametrize("given", [{}, {"filePath": 3}, {"filePath": "\0", "content": ""}, {"x": "\ud800"}])
async def test_arguments_that_a_person_gives_instead_are_checked_as_well(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    place = create_yard(tmp_path)
    line = call("write", filePath="a.txt", content="x")
    async with open_coder(tmp_path, place, [line], permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        with suppress(InvalidInput):  # it may also be told at once, and asked again
            await at.runtime.answer(asked.request.id, "once", input=given)
            await at.runtime.wait(at.session_id)
            (state,) = await at.states()
            check([CallTool("write", given)], (await at.messages())[-1].text, [state])
            assert isinstance(state, ToolFailed)
        assert await at.abort()
    assert not (place.root / "a.txt").exists()
