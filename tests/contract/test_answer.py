"""A person answers an ask or a question, once."""

import asyncio

import pytest

from asyncagents.domain.call import Answers, Completed, Failed, Once, Reject, Reply
from asyncagents.domain.event import PermissionReplied, QuestionRejected, QuestionReplied
from asyncagents.errors import Conflict, InvalidInput, NotFound
from tests.contract.build import Lab, ask_id, done, result_of, state_of


async def test_a_yes_lets_the_call_run(lab: Lab) -> None:
    session_id, lease, call, _ = await lab.asked()
    snapshot = await lab.store.snapshot(lease)
    assert await lab.store.park(lease, snapshot.control.wake_seq)
    lab.commits.clear()
    granted = await lab.store.answer(ask_id(call), Once(), ask_hash="h1")
    assert (state_of(granted), granted.granted, granted.reply) == ("Requested", ("h1",), Once())
    assert [(e.request_id, e.reply) for e in lab.events if isinstance(e, PermissionReplied)] == [
        (ask_id(call), "once")
    ]
    assert lab.woken == [session_id]
    lease = await lab.claim(session_id)
    assert (await lab.store.snapshot(lease)).requested == (granted,)


@pytest.mark.parametrize("reply", [Once(), Reject(), Reject("no")], ids=["yes", "no", "no because"])
async def test_the_same_answer_again_changes_nothing(lab: Lab, reply: Reply) -> None:
    _, _, call, _ = await lab.asked()
    first = await lab.store.answer(ask_id(call), reply)
    before, cursor = await lab.everything(), await lab.store.cursor()
    lab.commits.clear()
    assert await lab.store.answer(ask_id(call), reply) == first
    for other in (Once(), Reject(), Reject("something else")):
        if other != reply:
            with pytest.raises(Conflict, match=ask_id(call)):
                await lab.store.answer(ask_id(call), other)
    assert await lab.everything() == before
    assert await lab.store.cursor() == cursor
    assert (lab.events, lab.woken) == ([], [])


async def test_the_same_answer_is_the_same_after_the_call_has_run(lab: Lab) -> None:
    _, lease, call, _ = await lab.asked()
    await lab.store.answer(ask_id(call), Once())
    await lab.start(lease, call)
    settled = await lab.store.finish_call(lease, call.id, done())
    assert await lab.store.answer(ask_id(call), Once()) == settled


async def test_of_many_answers_at_once_one_counts(lab: Lab) -> None:
    _, lease, call, _ = await lab.asked()
    replies: list[Reply] = [Once(), Reject("a"), Reject("b")] * 5
    answers = await asyncio.gather(
        *(lab.store.answer(ask_id(call), reply) for reply in replies), return_exceptions=True
    )
    kept = (await lab.store.call(call.id)).reply
    for reply, answer in zip(replies, answers, strict=True):
        assert isinstance(answer, Conflict) == (reply != kept)
    assert len((await lab.store.snapshot(lease)).requested) == (kept == Once())


async def test_an_answer_to_something_else_is_a_conflict(lab: Lab) -> None:
    session_id, lease, call, _ = await lab.asked()
    before = await lab.everything()
    with pytest.raises(Conflict, match=ask_id(call)):
        await lab.store.answer(ask_id(call), Once(), ask_hash="h0")
    with pytest.raises(NotFound):
        await lab.store.answer("per_nobody", Once())
    assert await lab.everything() == before

    old = ask_id(call)
    again = await lab.move(lease, call, lab.ask(session_id))
    with pytest.raises(NotFound):
        await lab.store.answer(old, Once())
    assert state_of(await lab.store.answer(ask_id(again), Once())) == "Requested"


async def test_an_ask_that_was_settled_otherwise_takes_no_answer(lab: Lab) -> None:
    _, lease, call, _ = await lab.asked()
    await lab.store.finish_call(lease, call.id, Failed("gone"))
    with pytest.raises(Conflict, match=ask_id(call)):
        await lab.store.answer(ask_id(call), Once())


async def test_a_question_takes_an_answer_for_each_of_its_questions(lab: Lab) -> None:
    session_id, lease, (call,) = await lab.called(None)
    call = await lab.move(lease, call, lab.question(session_id, "Which colour?", "Which size?"))
    before = await lab.everything()
    for wrong in (Once(), Answers((("red",),)), Answers(())):
        with pytest.raises(InvalidInput):
            await lab.store.answer(ask_id(call), wrong)
    assert await lab.everything() == before
    lab.commits.clear()
    answers = (("red", "blue"), ())
    settled = await lab.store.answer(ask_id(call), Answers(answers))
    result = result_of(settled)
    assert isinstance(result, Completed)
    assert "red, blue" in result.output
    assert result.metadata["answers"] == [["red", "blue"], []]
    assert [e.answers for e in lab.events if isinstance(e, QuestionReplied)] == [answers]
    assert await lab.store.answer(ask_id(call), Answers(answers)) == settled


async def test_a_question_may_be_refused(lab: Lab) -> None:
    session_id, lease, (call,) = await lab.called(None)
    call = await lab.move(lease, call, lab.question(session_id))
    lab.commits.clear()
    await lab.store.answer(ask_id(call), Reject())
    assert [e.request_id for e in lab.events if isinstance(e, QuestionRejected)] == [ask_id(call)]
    assert (await lab.store.snapshot(lease)).blocked


async def test_answers_are_no_reply_to_an_ask(lab: Lab) -> None:
    _, _, call, _ = await lab.asked()
    before = await lab.everything()
    with pytest.raises(InvalidInput):
        await lab.store.answer(ask_id(call), Answers((("yes",),)))
    assert await lab.everything() == before
