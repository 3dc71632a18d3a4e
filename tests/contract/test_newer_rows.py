"""Rows of a newer release: what we do not know survives what we do."""

from typing import Any

import msgspec
import pytest

from asyncagents.domain.call.call import render
from asyncagents.domain.conversation.codec import SHAPE_VERSION, UnknownPart
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import SessionChanges
from asyncagents.domain.event import PartUpdated
from tests.support.store.lab import ALICE, BOB, Lab, completed_result, state_of
from tests.support.store.row import (
    call_row,
    message_row,
    part_row,
    rewrite_call,
    rewrite_message,
    rewrite_part,
    rewrite_session,
    session_row,
)

NEWER = SHAPE_VERSION + 1


def _with(raw: bytes, **more: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(raw) | more)


def _get(raw: bytes) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(raw)
    return value


async def test_a_newer_session_keeps_its_unknown_fields(lab: Lab) -> None:
    session_id = await lab.session()
    raw, _ = await session_row(lab, session_id)
    await rewrite_session(lab, session_id, _with(raw, sparkle=[1, {"a": 2}]), NEWER)
    await lab.store.conversation.update_session(session_id, SessionChanges(title="Dragons"))
    await lab.prompt(session_id)
    await lab.claim(session_id)
    raw, version = await session_row(lab, session_id)
    assert _get(raw)["title"] == "Dragons"
    assert _get(raw)["sparkle"] == [1, {"a": 2}]
    assert version == NEWER
    assert (await lab.store.session(session_id)).title == "Dragons"


async def test_a_newer_message_keeps_its_unknown_fields(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    raw, _ = await message_row(lab, step.id)
    await rewrite_message(lab, step.id, _with(raw, mood="bright"), NEWER)
    await lab.end(claim, step)
    raw, version = await message_row(lab, step.id)
    assert _get(raw)["mood"] == "bright"
    assert _get(raw)["finish"] == "stop"
    assert version == NEWER


async def test_a_newer_message_that_is_cut_off_keeps_its_unknown_fields(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    raw, _ = await message_row(lab, step.id)
    await rewrite_message(lab, step.id, _with(raw, mood="bright"), NEWER)
    await lab.claim(session_id, BOB, dead=ALICE)
    raw, version = await message_row(lab, step.id)
    assert _get(raw)["mood"] == "bright"
    assert version == NEWER
    assert "error" in _get(raw)


async def test_a_newer_part_keeps_its_unknown_fields(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    part = lab.text(step, "Once")
    await lab.write(claim, part)
    raw, _ = await part_row(lab, part.id)
    await rewrite_part(lab, part.id, _with(raw, tone="warm"), NEWER, message_id=step.id)
    longer = TextPart(id=part.id, session_id=session_id, message_id=step.id, text="Once upon", time=part.time)
    await lab.write(claim, longer)
    raw, version = await part_row(lab, part.id)
    assert _get(raw)["tone"] == "warm"
    assert _get(raw)["text"] == "Once upon"
    assert version == NEWER
    await lab.claim(session_id, BOB, dead=ALICE)
    raw, version = await part_row(lab, part.id)
    assert _get(raw)["tone"] == "warm"
    assert version == NEWER
    assert "end" in _get(raw)["time"]


@pytest.mark.parametrize("way", ["advance", "settle"])
async def test_a_newer_call_and_its_part_keep_their_unknown_fields(lab: Lab, way: str) -> None:
    _, claim, (call,) = await lab.start_calls(lab.open_state())
    raw, _ = await call_row(lab, call)
    await rewrite_call(lab, call, _with(raw, webhook="https://example.com"), NEWER)
    raw, _ = await part_row(lab, call.part_id)
    await rewrite_part(lab, call.part_id, _with(raw, badge="new"), NEWER, message_id=call.message_id)
    if way == "settle":
        moved = await lab.store.settle(call.id, completed_result())
    else:
        moved = await lab.start(claim, call)
    assert state_of(moved) != "Open"
    raw, version = await call_row(lab, call)
    assert _get(raw)["webhook"] == "https://example.com"
    assert version == NEWER
    assert await lab.store.call(call.id) == moved
    raw, version = await part_row(lab, call.part_id)
    assert _get(raw)["badge"] == "new"
    assert version == NEWER
    assert render(moved) in (await lab.store.message(call.message_id)).parts


async def test_a_part_of_an_unknown_type_is_shown_and_kept(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    part_id = lab.ids.part()
    raw = msgspec.json.encode(
        {"id": part_id, "sessionID": session_id, "messageID": prompt, "type": "hologram", "depth": 3}
    )
    cursor = await lab.store.cursor()
    await rewrite_part(lab, part_id, raw, NEWER, message_id=prompt)
    kept = (await lab.store.message(prompt)).parts[-1]
    assert isinstance(kept, UnknownPart)
    assert kept.raw == raw
    step = await lab.step(claim)
    assert step.started.tail[0].parts[-1] == kept
    parts = [e.part for e in (await lab.store.feed(cursor)).events if isinstance(e, PartUpdated)]
    assert kept in parts
