"""A request begins with the one before it, except after a summary or pruning: so a provider's cache hits."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents import Completed, Tool, ToolContext
from asyncagents.config.config import Config
from asyncagents.domain.window import Window
from asyncagents.engine.model_input import CLEARED
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.anthropic.request import write_body as anthropic_body
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import ChatRequest, ToolTurn, UserTurn
from asyncagents.llm.openai.request import write_body as openai_body
from asyncagents.llm.scripted import ScriptedModel, ScriptLine, call, say
from asyncagents.testing.inside import inside
from tests.support.model import WindowModel, is_summary_request
from tests.support.process.coding_worker import FILES, SCRIPT
from tests.support.runtime import open_runtime
from tests.support.tool import TextArguments, build_pending_tool
from tests.support.wait import PATIENCE

WINDOW = Window(context=20_000, output=4_000)
ENDPOINT = Endpoint(provider_id="x", base_url="http://localhost")


def blocks(request: ChatRequest, wire: str) -> list[bytes]:
    """A request as its provider reads it: tools, then the system text, then what was told, piece by piece."""
    body = anthropic_body(ENDPOINT, request) if wire == "anthropic" else openai_body(ENDPOINT, request)
    pieces = [*(body.get("tools") or ()), *(body.get("system") or ())]
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list) and wire == "anthropic":
            pieces += [{"role": message["role"], **block} for block in content]
        else:
            pieces.append(message)
    return [msgspec.json.encode(_unmarked(piece)) for piece in pieces]


def _unmarked(piece: dict[str, Any]) -> dict[str, Any]:
    """Where the cache is told to look is no part of what it keeps."""
    return {key: value for key, value in piece.items() if key != "cache_control"}


def common(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """In bytes."""
    size = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        size += len(new)
    return size


# Random histories.

lines = st.lists(
    st.one_of(
        st.builds(lambda n: say("word " * n), st.integers(1, 200)),
        st.builds(lambda n: call("echo", text=f"{n}"), st.integers(0, 4_000)),
        st.just(call("job")),
        st.just(call("nobody")),
    ),
    min_size=1,
    max_size=3,
)
acts = st.lists(
    st.one_of(
        st.tuples(st.just("prompt"), st.integers(0, 300)),
        st.tuples(st.sampled_from(["deliver", "compact", "restart", "agent", "quiet"]), st.just(0)),
    ),
    min_size=3,
    max_size=10,
)


class Improviser(WindowModel):
    """Says what was drawn, one step after the other; then it has nothing more to say."""

    def __init__(self, steps: list[Sequence[ScriptLine]]) -> None:
        self._steps = steps
        super().__init__(WINDOW, self._next)

    def _next(self, request: ChatRequest) -> Sequence[ScriptLine]:
        return self._steps.pop() if self._steps else [say("Nothing more.")]


async def _echo(args: TextArguments, context: ToolContext) -> Completed:
    return Completed("seen " * int(args.text))


TOOLS = (Tool("echo", TextArguments, _echo, effect="none"), build_pending_tool("job"))


def _allow(ask: object, context: object) -> Any:
    return "allow"


async def _act(runtime: Runtime, session_id: Any, act: str, size: int) -> None:
    match act:
        case "prompt":
            await runtime.prompt(session_id, "please " * (size + 1))
        case "quiet":
            await runtime.send(session_id, "by the way", wakes=False)
        case "agent":
            await runtime.prompt(session_id, "you there", agent="plan")
        case "deliver":
            for each in await runtime.open_calls(session_id):
                await runtime.complete(each.id, "done")
        case _:
            await inside(runtime).store.admit(
                inside(runtime).inputs.build_compaction(session_id, key=None, options={})
            )
    await runtime.wait(session_id)


async def _play(history: list[tuple[str, int]], model: Improviser) -> None:
    with tempfile.TemporaryDirectory() as data:
        async with open_runtime(data, model=model, tools=TOOLS, policy=_allow) as runtime:
            session_id = (await runtime.create_session(directory=data)).id
        for chunk in _runs(history):
            async with open_runtime(data, model=model, tools=TOOLS, policy=_allow) as runtime:
                async with asyncio.timeout(PATIENCE):
                    for act, size in chunk:
                        await _act(runtime, session_id, act, size)


def _runs(history: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Between two restarts."""
    runs: list[list[tuple[str, int]]] = [[]]
    for act in history:
        runs.append([]) if act[0] == "restart" else runs[-1].append(act)
    return runs


@pytest.mark.spec("S-05", "S-10")
@settings(deadline=None, max_examples=40)
@given(acts, st.lists(lines, max_size=20))
def test_each_request_extends_the_last_except_after_summary_or_pruning(
    history: list[tuple[str, int]], steps: list[Sequence[ScriptLine]]
) -> None:
    model = Improviser(steps)
    asyncio.run(_play(history, model))
    assert model.refused == 0
    before: ChatRequest | None = None
    anew = False
    for request in model.requests:
        if is_summary_request(request):
            anew = True
            continue
        if before is not None and list(request.messages[: len(before.messages)]) != list(before.messages):
            assert anew or _pruned(before, request), "what was sent has changed"
        elif before is not None and request.tools == before.tools:
            for wire in ("openai", "anthropic"):
                old = blocks(before, wire)
                assert blocks(request, wire)[: len(old)] == old, wire
        before, anew = request, False


def _pruned(before: ChatRequest, now: ChatRequest) -> bool:
    def cleared(request: ChatRequest) -> int:
        return sum(isinstance(told, ToolTurn) and told.output == CLEARED for told in request.messages)

    return cleared(now) > cleared(before)


# The share of a coding session.


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_cache_hits_most_of_the_bytes_of_a_coding_session(
    tmp_path: Path, wire: str, record_property: Any
) -> None:
    """Two agents take part, and the second one begins anew with its own system text and tools."""
    root = tmp_path / "repository"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    model = ScriptedModel(SCRIPT)
    config = Config(data_dir=tmp_path / "data", permission={"edit": "allow", "bash": "allow"})
    async with open_runtime(tmp_path / "data", model=model, coding=config) as runtime:
        session = await runtime.create_session(directory=root)
        for agent in ("plan", "build"):
            async with asyncio.timeout(PATIENCE):
                sent = await runtime.send(session.id, agent, agent=agent)
                await _approve(runtime, session.id)
                assert (await runtime.answer_to(sent)) is not None
    steps = [request for request in model.requests if isinstance(request.messages[-1], UserTurn | ToolTurn)]
    sent_bytes, hit = 0, 0
    before: list[bytes] = []
    for request in steps:
        now = blocks(request, wire)
        sent_bytes += sum(map(len, now))
        hit += common(before, now)
        before = now
    share = hit / sent_bytes
    record_property(f"per mille of a coding session that a cache would hit, {wire}", int(share * 1_000))
    assert share > 0.75


async def _approve(runtime: Runtime, session_id: Any) -> None:
    """`plan` asks for every command."""
    await runtime.wait_tree(session_id)
    while asks := await runtime.asks(session_id):
        for waiting in asks:
            assert waiting.call.ask_id is not None
            await runtime.answer(waiting.call.ask_id, "once")
        await runtime.wait_tree(session_id)
