"""Two thousand messages: no request is too long, nothing open is forgotten, and what is told stays short."""

import asyncio
import os
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, assert_never

import pytest

from asyncagents import Completed, Pending, Tool, ToolContext
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import SessionId
from asyncagents.domain.window import Window
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import WithFacts
from asyncagents.llm.model import ChatRequest, ModelTurn, RequestMessage, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptLine, call, say
from asyncagents.testing.inside import inside
from tests.support.model import WindowModel, count_tokens
from tests.support.runtime import open_runtime
from tests.support.tool import NoArguments, TextArguments
from tests.support.wait import PATIENCE

MESSAGES = 2_000
BIG = os.environ.get("ASYNCAGENTS_EXAMPLES") == "drawn"
"""In a soak: all of them."""
WORDS = "the quick brown fox jumps over the lazy dog "
_PENDING = re.compile(r"is still pending \(job, (\S+)\)|^- (\S+): job", re.MULTILINE)
_RESULT = re.compile(r"The pending call (\S+) \(job\)")


class Worker:
    """A model that works for days: it reads, plans, starts jobs, and knows what it must never forget."""

    def __init__(self, seed: int, longest: int) -> None:
        self._rng = random.Random(seed)
        self._longest = longest
        self.jobs: set[str] = set()
        """Calls whose results it has not seen."""
        self.todos: tuple[str, ...] = ()
        self.forgot: list[str] = []
        self._told: Sequence[RequestMessage] = ()
        self._read = ""

    def __call__(self, request: ChatRequest) -> Sequence[ScriptLine]:
        self._remember(request)
        steps = 0
        for told in reversed(request.messages):
            if isinstance(told, UserTurn):
                break
            steps += isinstance(told, ModelTurn)
        drawn = self._rng.random()
        if drawn < 0.2 * steps:
            return [say("Done. " + WORDS * self._rng.randrange(20))]
        if drawn > 0.97:
            return [call("job")]
        if drawn > 0.9:
            return [call("plan", text=f"todo number {self._rng.randrange(10_000)}")]
        size = f"{self._rng.randrange(self._longest)}"
        return [say("Reading."), *(call("much", text=size) for _ in range(self._rng.choice([1, 1, 2])))]

    def _remember(self, request: ChatRequest) -> None:
        """What is open now must be there to be read."""
        before, self._told = self._told, request.messages
        grown = (
            len(before) > 0
            and request.messages[0] is before[0]
            and request.messages[len(before) - 1] is before[-1]
        )
        text = "\n".join(map(_short, request.messages[len(before) if grown else 0 :]))
        self._read = f"{self._read}\n{text}" if grown else text
        known = {first or second for first, second in _PENDING.findall(self._read)}
        self.jobs -= set(_RESULT.findall(self._read))
        self.forgot += [f"the job {job}" for job in self.jobs - known]
        self.forgot += [f"the todo {todo}" for todo in self.todos if todo not in self._read]


def _short(told: RequestMessage) -> str:
    """What matters of it to this model: not what it read in files."""
    match told:
        case UserTurn(text):
            return text
        case ToolTurn(output=output):
            return "" if output.startswith(WORDS) else output
        case ModelTurn():
            return str(told.calls)
        case _:
            assert_never(told)


def _tools(worker: Worker) -> tuple[Tool[Any], ...]:
    async def much(args: TextArguments, context: ToolContext) -> Completed:
        return Completed(WORDS * int(args.text))

    async def plan(args: TextArguments, context: ToolContext) -> WithFacts:
        todo = Todo(content=args.text, status="pending", priority="high", id="t")
        worker.todos = (todo.content,)
        return WithFacts(Completed(f"noted {todo.content}"), (WriteTodos(context.session_id, (todo,)),))

    async def job(args: NoArguments, context: ToolContext) -> Pending:
        return Pending()

    return (
        Tool("much", TextArguments, much, effect="none"),
        Tool("plan", TextArguments, plan),
        Tool("job", NoArguments, job),
    )


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Thousands of commits, none of which has to survive a power cut."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.spec("S-05", "S-09", "S-10", "S-11")
@pytest.mark.parametrize(
    ("window", "longest", "messages"),
    [
        (Window(context=200_000, output=32_000), 1_500, MESSAGES if BIG else MESSAGES // 4),
        (Window(context=16_000, output=4_000), 250, MESSAGES if BIG else MESSAGES // 2),
    ],
    ids=["200k", "16k"],
)
async def test_a_session_of_thousands_of_messages_stays_inside_its_window_and_forgets_nothing(
    in_memory: Path, window: Window, longest: int, messages: int
) -> None:
    worker = Worker(1, longest)
    model = WindowModel(window, worker)
    async with open_runtime(in_memory, model=model, tools=_tools(worker), policy=_allow) as runtime:
        session = await runtime.create_session(directory=in_memory)
        number = 0
        while (await inside(runtime).store.control(session.id)).positions < messages:
            number += 1
            async with asyncio.timeout(PATIENCE):
                await runtime.prompt(session.id, f"Task {number}: {WORDS * (number % 7)}")
            await _deliver(runtime, session.id, worker, keep=number % 5)
        for pending in await runtime.open_calls(session.id):
            await runtime.complete(pending.id, "at last")
        assert isinstance(await runtime.wait(session.id), Idle)

    assert model.refused == 0, "no request was too long"
    assert not worker.forgot, worker.forgot[:3]
    assert len(model.summaries) >= 2
    assert max(map(count_tokens, model.requests)) < (window.context or 0)
    if messages == MESSAGES:
        late = [len(request.messages) for request in model.steps[-200:]]
        early = [len(request.messages) for request in model.steps[200:400]]
        assert sum(late) < 3 * sum(early), "what is told does not grow with what was said"


async def _deliver(runtime: Runtime, session_id: SessionId, worker: Worker, keep: int) -> None:
    """Some results come soon, others long after their calls were summarised."""
    calls = [each for each in await runtime.open_calls(session_id) if each.shown_pending]
    worker.jobs |= {each.call_id for each in calls}
    for each in calls[keep:]:
        await runtime.complete(each.id, f"result of {each.call_id}")
        await runtime.wait(session_id)


def _allow(ask: object, context: object) -> Any:
    return "allow"
