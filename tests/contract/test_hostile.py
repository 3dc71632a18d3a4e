"""Values that some database, or some reader, cannot take: refused with a clear error, nothing stored."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed, Reject, Running
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import NewSession, SessionChanges
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.step import CallMove
from asyncagents.errors import InvalidInput
from tests.support.store.lab import POOL, Lab, ask_id


def _nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


TEXTS = {"lone surrogate": "a\ud800b", "lone low surrogate": "\udfff"}
VALUES: dict[str, Any] = {
    "lone surrogate": {"a": ["\ud800"]},
    "lone surrogate as key": {"\ud800": 1},
    "an endless int": {"a": 10**5_000},
    "deep": {"a": _nested(150)},
    "bottomless": {"a": _nested(5_000)},
    "no JSON": {"a": object()},
    "no JSON key": {("a", "b"): 1},
}

Act: TypeAlias = Callable[[], Awaitable[object]]
Scene: TypeAlias = Callable[[Lab, Any], Awaitable[Act]]


async def _prompt(lab: Lab, text: str) -> Act:
    session_id = await lab.session()
    fact = lab.input(session_id, text)
    return lambda: lab.store.admit(fact)


async def _title(lab: Lab, text: str) -> Act:
    session_id = await lab.session()
    return lambda: lab.store.conversation.update_session(session_id, SessionChanges(title=text))


async def _result(lab: Lab, text: str) -> Act:
    _, _, (call,) = await lab.start_calls(lab.open_state())
    return lambda: lab.store.settle(call.id, Completed(text))


async def _error(lab: Lab, text: str) -> Act:
    _, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    return lambda: lab.store.finish_call(claim, call.id, Failed(text), (lab.input(call.session_id),))


async def _refusal(lab: Lab, text: str) -> Act:
    _, _, call, _ = await lab.open_ask(None)
    return lambda: lab.store.answer(ask_id(call), Reject(text))


async def _stream(lab: Lab, text: str) -> Act:
    _, _, claim = await lab.claim_prompted()
    part = lab.text(await lab.step(claim), text)
    return lambda: lab.write(claim, part)


async def _key(lab: Lab, text: str) -> Act:
    session_id = await lab.session()
    fact = lab.input(session_id, key=text)
    return lambda: lab.store.admit(fact)


async def _session_key(lab: Lab, text: str) -> Act:
    info = lab.info()
    return lambda: lab.store.create_session(NewSession(info=info, pool=POOL, key=text))


async def _project(lab: Lab, text: str) -> Act:
    info = lab.info(project=text)
    return lambda: lab.store.create_session(NewSession(info=info, pool=POOL))


async def _message_id(lab: Lab, text: str) -> Act:
    session_id = await lab.session()
    fact = lab.input(session_id)
    named = MessageId(text)
    parts = tuple(replace(part, message_id=named) for part in fact.parts)
    fact = replace(fact, message=replace(fact.message, id=named), parts=parts)
    return lambda: lab.store.admit(fact)


async def _part_id(lab: Lab, text: str) -> Act:
    session_id = await lab.session()
    fact = lab.input(session_id)
    fact = replace(fact, parts=tuple(replace(part, id=PartId(text)) for part in fact.parts))
    return lambda: lab.store.admit(fact)


async def _session_id(lab: Lab, text: str) -> Act:
    info = replace(lab.info(), id=SessionId(text))
    return lambda: lab.store.create_session(NewSession(info=info, pool=POOL))


async def _part_metadata(lab: Lab, value: Any) -> Act:
    session_id = await lab.session()
    fact = lab.input(session_id)
    (part,) = fact.parts
    assert isinstance(part, TextPart)
    fact = replace(fact, parts=(replace(part, metadata=value),))
    return lambda: lab.store.admit(fact)


async def _session_metadata(lab: Lab, value: Any) -> Act:
    info = lab.info(metadata=value)
    return lambda: lab.store.create_session(NewSession(info=info, pool=POOL))


async def _result_metadata(lab: Lab, value: Any) -> Act:
    _, _, (call,) = await lab.start_calls(lab.open_state())
    return lambda: lab.store.settle(call.id, Completed("x", metadata=value))


async def _call_input(lab: Lab, value: Any) -> Act:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    end = lab.step_end(step, lab.call(step, given=value))
    return lambda: lab.store.finish_step(claim, end)


async def _due_result(lab: Lab, value: Any) -> Act:
    _, claim, (call,) = await lab.start_calls(None)
    move = CallMove(call.id, lab.open_state(on_due=Completed("x", metadata=value)))
    return lambda: lab.store.advance(claim, (move,))


IN_TEXT: list[Scene] = [_prompt, _title, _result, _error, _refusal, _stream]
IN_NAMES: list[Scene] = [_key, _session_key, _project, _message_id, _part_id, _session_id]
IN_VALUES: list[Scene] = [_part_metadata, _session_metadata, _result_metadata, _call_input, _due_result]


def _name(scene: Scene) -> str:
    return scene.__name__.strip("_")


async def _refuses(lab: Lab, act: Act) -> None:
    """It is refused, nothing of it is there, and its neighbours in the same batch are."""
    witness = await lab.session()
    before = await lab.read_everything()
    results = await asyncio.gather(lab.prompt(witness), act(), lab.prompt(witness), return_exceptions=True)
    assert isinstance(results[1], InvalidInput), results[1]
    assert len(await lab.store.messages(witness)) == 2
    await lab.store.delete_session(witness)
    after = await lab.read_everything()
    assert {key: value for key, value in before.items() if key != witness} == after


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("scene", [*IN_TEXT, *IN_NAMES], ids=_name)
async def test_text_with_a_lone_surrogate_is_refused(lab: Lab, scene: Scene, text: str) -> None:
    await _refuses(lab, await scene(lab, text))


@pytest.mark.parametrize("scene", IN_NAMES, ids=_name)
async def test_a_zero_byte_in_a_name_is_refused(lab: Lab, scene: Scene) -> None:
    await _refuses(lab, await scene(lab, "a\0b"))


@pytest.mark.parametrize("scene", IN_TEXT, ids=_name)
async def test_a_zero_byte_in_a_text_is_kept(lab: Lab, scene: Scene) -> None:
    await (await scene(lab, "a\0b"))()
    assert "a\\x00b" in repr(await lab.read_everything())


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("scene", IN_VALUES, ids=_name)
async def test_a_value_that_cannot_be_read_again_is_refused(lab: Lab, scene: Scene, value: Any) -> None:
    await _refuses(lab, await scene(lab, value))


@pytest.mark.parametrize("scene", IN_VALUES, ids=_name)
async def test_a_strange_value_is_kept_as_it_is(lab: Lab, scene: Scene) -> None:
    value = {
        "": None,
        "big": 2**70,
        "small": -(2**70),
        "deep": _nested(80),
        "[": '"{[' * 200,
        "\0": "\\u0000",
    }
    await (await scene(lab, value))()
    assert repr(value) in repr(await lab.read_everything())


async def test_a_repeated_result_with_values_that_json_changes_is_no_conflict(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(lab.open_state())
    result = Completed("x", metadata={"a": (1, 2), "b": {3: 4}, "nan": float("nan")})
    await lab.store.settle(call.id, result)
    settled = await lab.store.call(call.id)
    assert await lab.store.settle(call.id, result) == settled


async def test_a_deadline_beyond_the_range_of_the_database_is_refused(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    before = await lab.read_everything()
    with pytest.raises(InvalidInput):
        await lab.store.advance(claim, (CallMove(call.id, lab.open_state(due=2**63)),))
    assert await lab.read_everything() == before
    assert isinstance((await lab.start(claim, call)).state, Running)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_an_id_with_a_lone_surrogate_is_refused(lab: Lab, text: str) -> None:
    with pytest.raises(InvalidInput):
        await lab.store.session(SessionId(text))
    with pytest.raises(InvalidInput):
        await lab.store.answer(text, Reject())
    with pytest.raises(InvalidInput):
        await lab.store.sessions(text)
