"""Work on a copy until nothing is left to do: asks are answered, results given, the time of timers comes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.status import Retry, Status, WaitingAsync
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, NotFound
from asyncagents.llm.model import ChatRequest, ToolTurn, UserTurn
from tests.recorded.copy import At, Copy, running

SOON, LATER = 1_000, 30 * 86_400_000 // 3
"""In ms after the recording: nothing more is due; all that ever was is."""
PATIENCE = 150.0
"""So long a test waits for what must come; a healthy run never does."""
PAUSE = 0.02


class Given(Struct):
    """What was said from outside while the work went on."""

    results: dict[str, str] = {}
    """By the id of the call."""
    replies: list[str] = []
    """Asks that were answered."""


class Done(Struct, frozen=True):
    """What came of it."""

    given: Given
    runs: list[tuple[str, str]]
    """Tool and effect key of each run of a tool."""
    letters: list[str]
    """The ids of webhooks that were posted."""
    requests: list[ChatRequest]


async def finish(copy: Copy) -> Done:
    """Let all that was recorded come to rest."""
    given, ats = Given({}, []), list[At]()
    async with running(copy, after_ms=SOON) as at:
        ats.append(at)
        await until(lambda: _answered(at, given))
    async with running(copy, after_ms=LATER) as at:
        ats.append(at)
        await until(lambda: _at_rest(at, given))
        await until(lambda: _told(at))
    return Done(
        given=given,
        runs=[run for each in ats for run in each.record.runs],
        letters=[letter.headers["webhook-id"] for each in ats for letter in each.record.letters],
        requests=[request for each in ats for request in each.model.requests],
    )


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110  many things end, in whatever order
            await asyncio.sleep(PAUSE)


async def _answered(at: At, given: Given) -> bool:
    """Whether only timers and requests that wait for their next try are left."""
    await _answer(at, given)
    return all(map(_only_time_helps, (await at.runtime.statuses()).values()))


def _only_time_helps(status: Status) -> bool:
    return isinstance(status, Retry) or (isinstance(status, WaitingAsync) and status.tool == "wait")


async def _at_rest(at: At, given: Given) -> bool:
    await _answer(at, given)
    return not await at.runtime.statuses()


async def _told(at: At) -> bool:
    """Whether no webhook is owed."""
    return not await at.runtime.deliveries.list("owed")


async def _answer(at: At, given: Given) -> None:
    """Answer whatever asks, and give whatever waits its result."""
    for waiting in await at.runtime.asks():
        ask_id = waiting.call.ask_id or ""
        try:
            await at.runtime.answer(ask_id, _reply(waiting.call))
            given.replies.append(ask_id)
        except (Conflict, NotFound):
            continue  # its session went on meanwhile
    for call in await at.runtime.async_tools.waiting_calls():
        if call.tool not in ("wait", "sign_off"):
            result = f"the result of {call.id}"
            given.results[call.id] = result
            await at.runtime.complete(call.id, result)


def _reply(call: Call) -> Any:
    assert call.open is not None, "it asks"
    if call.open.approval:
        return "approve"
    if call.open.question is not None:
        return [[question.options[0].label] for question in call.open.question.questions]
    return "once"


def told(requests: list[ChatRequest]) -> str:
    """All that models were told, by people and by tools."""
    said = [
        each.text if isinstance(each, UserTurn) else each.output
        for request in requests
        for each in request.messages
        if isinstance(each, UserTurn | ToolTurn)
    ]
    return "\n".join(dict.fromkeys(said))


async def prompt(at: At, session_id: SessionId, text: str, **more: Any) -> str:
    async with asyncio.timeout(PATIENCE):
        return (await at.runtime.prompt(session_id, text, **more)).text
