"""Whatever is done to a store, in any order: what must always be true of its rows."""

import msgspec
import pytest

from asyncagents.domain.call.call import Result, Settled, render
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import PartTime, ReasoningPart, TextPart, ToolPart, ToolPending
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.session_state import session_status
from tests.support.store.lab import PROJECT, Lab
from tests.support.store.walk import Walk


async def _check_session(lab: Lab, session_id: SessionId) -> None:
    control = await lab.store.control(session_id)
    calls = [call for call in await lab.store.calls(session_id) if not call.is_settled]
    assert await lab.store.status(session_id) == session_status(control, tuple(calls))
    assert await lab.positions(session_id) == list(range(1, control.positions + 1))
    assert (control.owner is not None) == (control.state == "running")
    assert control.cancel_rev == 0 or control.cancel_rev != control.turn_rev
    await _check_money(lab, session_id, running=control.state == "running")
    await _check_inputs(lab, session_id, asleep=control.state == "idle")


async def _check_money(lab: Lab, session_id: SessionId, *, running: bool) -> None:
    """Every request is charged once when it ends; only a run has one open."""
    spent = Tokens.zero()
    requests = await lab.requests(session_id)
    for _, _, state, tokens, _ in requests:
        if state != "open":
            spent = spent.plus(msgspec.json.decode(tokens, type=Tokens))
    assert ((await lab.store.session(session_id)).tokens or Tokens.zero()) == spent
    assert [row[2] for row in requests].count("open") <= running


async def _check_inputs(lab: Lab, session_id: SessionId, *, asleep: bool) -> None:
    """Nobody sleeps over unread input, unless a person is asked something first."""
    placed = {entry.info.id for entry in await lab.store.history(session_id)}
    holds = any(call.blocks_session for call in await lab.store.open_calls(session_id))
    for entry in await lab.store.messages(session_id):
        if isinstance(entry.info, UserMessage):
            row = await lab.store.input(entry.info.id)
            assert (row.state == "promoted") == (entry.info.id in placed) == (row.turn is not None)
            assert row.state != "queued" or holds or not asleep
            assert row.state != "aborted" or row.answer_id is not None or not asleep


async def _check_parts(lab: Lab, session_id: SessionId) -> None:
    """Nothing is half open in a step that has ended, and a tool part shows its call."""
    rendered = {call.part_id: render(call) for call in await lab.store.calls(session_id)}
    for entry in await lab.store.messages(session_id):
        ended = isinstance(entry.info, AssistantMessage) and entry.info.time.completed is not None
        for part in entry.parts:
            match part:
                case ToolPart() if part.id in rendered:
                    assert part == rendered[part.id]
                case ToolPart(state=ToolPending()):
                    assert not ended
                case TextPart(time=PartTime(end=None)) | ReasoningPart(time=PartTime(end=None)):
                    assert not ended
                case _:
                    pass


@pytest.mark.spec("X-11", "C-06", "S-05")
@pytest.mark.parametrize("seed", range(100, 112))
async def test_rows_stay_consistent_after_random_operations(lab: Lab, seed: int) -> None:
    walk = Walk(lab, seed)
    settled: dict[CallId, Result] = {}
    for _ in range(20):
        await walk.go(8)
        for info in await lab.store.sessions(PROJECT, limit=1_000):
            await _check_session(lab, info.id)
            await _check_parts(lab, info.id)
            for call in await lab.store.calls(info.id):
                if isinstance(call.state, Settled):
                    assert settled.setdefault(call.id, call.state.result) == call.state.result
                else:
                    assert call.id not in settled
