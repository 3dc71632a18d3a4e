"""A person answers an ask or a question, once."""

import asyncio

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    WRITTEN_BY_PERSON,
    Always,
    Answers,
    Completed,
    Failed,
    Once,
    Reject,
    Reply,
)
from asyncagents.domain.event import PermissionReplied, QuestionRejected, QuestionReplied
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound
from tests.support.store.lab import PROJECT, Lab, ask_id, completed_result, result_of, state_of


async def test_an_ask_answered_with_once_lets_the_call_run(lab: Lab) -> None:
    session_id, claim, call, _ = await lab.open_ask()
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    lab.commits.clear()
    granted = await lab.store.answer(ask_id(call), Once(), ask_hash="h1")
    assert state_of(granted) == "Requested"
    assert granted.granted == ("h1",)
    assert granted.reply == Once()
    assert [(e.request_id, e.reply) for e in lab.events if isinstance(e, PermissionReplied)] == [
        (ask_id(call), "once")
    ]
    assert lab.woken == [session_id]
    claim = await lab.claim(session_id)
    assert (await lab.store.snapshot(claim)).requested_calls == (granted,)


@pytest.mark.parametrize(
    "reply",
    [Once(), Once({"target": "one"}), Always(), Reject(), Reject("no")],
    ids=["yes", "yes, otherwise", "always", "no", "no because"],
)
async def test_the_same_answer_again_changes_nothing(lab: Lab, reply: Reply) -> None:
    _, _, call, _ = await lab.open_ask()
    first = await lab.store.answer(ask_id(call), reply)
    before, cursor = await lab.read_everything(), await lab.store.cursor()
    lab.commits.clear()
    assert await lab.store.answer(ask_id(call), reply) == first
    for other in (Once(), Once({"target": "two"}), Always(), Reject(), Reject("something else")):
        if other != reply:
            with pytest.raises(Conflict, match=ask_id(call)):
                await lab.store.answer(ask_id(call), other)
    assert await lab.read_everything() == before
    assert await lab.store.cursor() == cursor
    assert lab.events == []
    assert lab.woken == []


async def test_a_repeated_answer_is_accepted_after_the_call_has_run(lab: Lab) -> None:
    _, claim, call, _ = await lab.open_ask()
    await lab.store.answer(ask_id(call), Once())
    await lab.start(claim, call)
    settled = await lab.store.finish_call(claim, call.id, completed_result())
    assert await lab.store.answer(ask_id(call), Once()) == settled


async def test_of_many_answers_at_once_one_counts(lab: Lab) -> None:
    _, claim, call, _ = await lab.open_ask()
    replies: list[Reply] = [Once(), Reject("a"), Reject("b")] * 5
    answers = await asyncio.gather(
        *(lab.store.answer(ask_id(call), reply) for reply in replies), return_exceptions=True
    )
    kept = (await lab.store.call(call.id)).reply
    for reply, answer in zip(replies, answers, strict=True):
        assert isinstance(answer, Conflict) == (reply != kept)
    assert len((await lab.store.snapshot(claim)).requested_calls) == (kept == Once())


async def test_an_answer_to_another_or_replaced_ask_is_refused(lab: Lab) -> None:
    session_id, claim, call, _ = await lab.open_ask()
    before = await lab.read_everything()
    with pytest.raises(Conflict, match=ask_id(call)):
        await lab.store.answer(ask_id(call), Once(), ask_hash="h0")
    with pytest.raises(NotFound):
        await lab.store.answer("per_nobody", Once())
    assert await lab.read_everything() == before

    old = ask_id(call)
    again = await lab.move(claim, call, lab.ask(session_id))
    with pytest.raises(NotFound):
        await lab.store.answer(old, Once())
    assert state_of(await lab.store.answer(ask_id(again), Once())) == "Requested"


async def test_an_ask_of_a_settled_call_takes_no_answer(lab: Lab) -> None:
    _, claim, call, _ = await lab.open_ask()
    await lab.store.finish_call(claim, call.id, Failed("gone"))
    with pytest.raises(Conflict, match=ask_id(call)):
        await lab.store.answer(ask_id(call), Once())


async def test_a_question_takes_an_answer_for_each_of_its_questions(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    call = await lab.move(claim, call, lab.question(session_id, "Which colour?", "Which size?"))
    before = await lab.read_everything()
    for wrong in (Once(), Answers((("red",),)), Answers(())):
        with pytest.raises(InvalidInput):
            await lab.store.answer(ask_id(call), wrong)
    assert await lab.read_everything() == before
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
    session_id, claim, (call,) = await lab.start_calls(None)
    call = await lab.move(claim, call, lab.question(session_id))
    lab.commits.clear()
    await lab.store.answer(ask_id(call), Reject())
    assert [e.request_id for e in lab.events if isinstance(e, QuestionRejected)] == [ask_id(call)]
    assert (await lab.store.snapshot(claim)).is_blocked


async def test_answers_to_questions_are_refused_for_an_ask(lab: Lab) -> None:
    _, _, call, _ = await lab.open_ask()
    before = await lab.read_everything()
    with pytest.raises(InvalidInput):
        await lab.store.answer(ask_id(call), Answers((("yes",),)))
    assert await lab.read_everything() == before


@pytest.mark.spec("A-04")
async def test_an_ask_may_be_allowed_with_other_arguments(lab: Lab) -> None:
    _, claim, call, _ = await lab.open_ask()
    edited = await lab.store.answer(ask_id(call), Once({"target": "one"}))
    assert edited.input == {"target": "one"}
    assert edited.written == {"target": "all"}
    assert state_of(edited) == "Requested"
    assert edited.granted == (WRITTEN_BY_PERSON,)
    assert edited.repeat_key == ("build", {"target": "all"})
    assert (await lab.store.snapshot(claim)).requested_calls == (edited,)


@pytest.mark.spec("A-04")
async def test_always_is_stored_for_the_project_and_grants_equal_asks_of_the_tree(lab: Lab) -> None:
    session_id, claim, call, (other,) = await lab.open_ask(None)
    alike = await lab.move(claim, other, lab.ask(session_id))
    child_id = await lab.session(parent=session_id)
    await lab.prompt(child_id)
    child_lease = await lab.claim(child_id)
    step = await lab.step(child_lease)
    below = lab.call(step)
    await lab.end(child_lease, step, below)
    below = await lab.move(child_lease, below, lab.ask(child_id))
    _, _, stranger, _ = await lab.open_ask()
    lab.commits.clear()

    await lab.store.answer(ask_id(call), Always())
    freed = {each.call.id for each in await lab.store.asks()} ^ {call.id, alike.id, below.id, stranger.id}
    assert freed == {call.id, alike.id, below.id}
    replies = [(e.request_id, e.reply) for e in lab.events if isinstance(e, PermissionReplied)]
    assert replies == [(ask_id(each), "always") for each in (call, alike, below)]
    assert set(lab.woken) == {session_id, child_id}
    (rule,) = await lab.store.approvals(PROJECT)
    assert rule.permission == "bash"
    assert rule.pattern == "make *"
    assert rule.action == "allow"
    assert await lab.store.approvals("another") == ()
    assert await lab.store.approval_store.withdraw_all(PROJECT, "edit") == 0
    assert await lab.store.approval_store.withdraw_all(PROJECT) == 1
    assert await lab.store.approvals(PROJECT) == ()


@pytest.mark.spec("Z-06")
async def test_an_exact_always_grants_only_asks_with_the_same_text(lab: Lab) -> None:
    session_id, claim, call, (other, third) = await lab.open_ask(None, None)
    await lab.store.answer(ask_id(call), Once())
    call, other, third = [
        await lab.move(claim, each, lab.exact_ask(session_id, text))
        for each, text in ((call, "ls $(a*)"), (other, "ls $(ab)"), (third, "ls $(a*)"))
    ]
    await lab.store.answer(ask_id(call), Always())
    assert {each.call.id for each in await lab.store.asks()} == {other.id}
    (rule,) = await lab.store.approvals(PROJECT)
    assert rule.permission == "exact:bash"
    assert rule.pattern == "ls $(a*)"
    assert rule.action == "allow"
    assert await lab.store.approval_store.withdraw_all(PROJECT, "edit") == 0
    assert await lab.store.approval_store.withdraw_all(PROJECT, "bash") == 1
    assert await lab.store.approvals(PROJECT) == ()


async def test_rejecting_a_non_blocking_ask_does_not_block_the_turn(lab: Lab) -> None:
    session_id, claim, (call, sibling) = await lab.start_calls(None, None)
    asked = await lab.move(claim, call, replace(lab.ask(session_id), blocks=False))
    rejected = await lab.store.answer(ask_id(asked), Reject())
    assert result_of(rejected) == Failed("The user rejected this tool call.")
    snapshot = await lab.store.snapshot(claim)
    assert not snapshot.is_blocked
    assert [each.id for each in snapshot.requested_calls] == [sibling.id]


@pytest.mark.spec("A-04")
async def test_open_asks_and_questions_are_listed_with_their_lineage(lab: Lab) -> None:
    root = await lab.session()
    child = await lab.session(parent=root)
    await lab.prompt(child)
    claim = await lab.claim(child)
    step = await lab.step(claim)
    calls = [lab.call(step) for _ in range(3)]
    await lab.end(claim, step, *calls)
    for call, state in zip(calls, (lab.ask(child), lab.question(child), lab.open_state()), strict=True):
        await lab.move(claim, call, state)
    for waiting in (await lab.store.asks(root), await lab.store.asks()):
        assert [each.call.id for each in waiting] == [calls[0].id, calls[1].id]
        assert [[session.id for session in each.lineage] for each in waiting] == [[root, child]] * 2
    other = await lab.session()
    assert await lab.store.asks(other) == ()
    with pytest.raises(NotFound):
        await lab.store.asks(SessionId("ses_none"))
