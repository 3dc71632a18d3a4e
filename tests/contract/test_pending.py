"""Calls whose result comes later: what is kept of them, who may settle them, and when they are forgotten."""

import asyncio

import pytest

from asyncagents.domain.call.call import (
    CANCELLED,
    AsyncState,
    Completed,
    Failed,
    Open,
    Requested,
    Running,
    Settled,
)
from asyncagents.domain.call.pending_tool import pending_status, pending_tool_call
from asyncagents.domain.event import AsyncToolExpiring, QuestionRejected
from asyncagents.domain.fact import KeepSecret
from asyncagents.domain.id import CallId
from asyncagents.domain.step import CallMove
from asyncagents.errors import AlreadySettled, Conflict, NotFound
from tests.support.store.lab import ALICE, BOB, Lab, completed_result, state_of
from tests.support.store.row import rewrite_call

DAY = 86_400_000
LATER = AsyncState(due=DAY, estimated=5, external_ref="job-7", checked=True)


def waiting(lab: Lab, state: AsyncState = LATER, **more: int | None) -> Open:
    return Open(kind="async", since=lab.clock.now(), later=state, **more)  # type: ignore[arg-type]


@pytest.mark.spec("P-01")
async def test_the_async_state_of_a_call_is_kept_after_it_is_settled(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    assert call.later is None
    assert pending_status(call) is None
    begun = await lab.move(claim, call, Running(claim.fence, AsyncState(due=7)))
    assert (begun.later, begun.state, pending_status(begun)) == (
        AsyncState(due=7), Running(claim.fence), "processing",
    )  # fmt: skip
    opened = await lab.move(claim, call, waiting(lab))
    assert opened.later == LATER
    assert pending_status(opened) == "waiting"
    assert isinstance(opened.state, Open)
    assert opened.state.later is None
    settled = await lab.store.settle(call.id, completed_result())
    assert settled.later == LATER
    assert pending_status(settled) == "completed"
    assert pending_tool_call(settled).external_ref == "job-7"


@pytest.mark.spec("P-09")
async def test_pending_calls_are_listed_by_status_and_session_in_pages(lab: Lab) -> None:
    first, _, calls = await lab.start_calls(*(waiting(lab) for _ in range(3)))
    second, _, (other,) = await lab.start_calls(waiting(lab))
    ids = sorted([*(call.id for call in calls), other.id])
    pending = lab.store.pending

    assert [call.id for call in await pending.calls("waiting", None, after="", limit=9)] == ids
    page = await pending.calls("waiting", None, after=ids[0], limit=2)
    assert [call.id for call in page] == ids[1:3]
    assert [call.id for call in await pending.calls("waiting", second, after="", limit=9)] == [other.id]
    await lab.store.settle(calls[0].id, completed_result())
    await lab.store.settle(calls[1].id, Failed(CANCELLED))
    for status, found in (("completed", calls[0]), ("failed", calls[1]), ("waiting", calls[2])):
        listed = await pending.calls(status, first, after="", limit=9)  # type: ignore[arg-type]
        assert [call.id for call in listed] == [found.id]


@pytest.mark.spec("P-09")
async def test_a_page_is_full_despite_unreadable_calls(lab: Lab) -> None:
    session_id, _, _ = await lab.start_calls(*(waiting(lab) for _ in range(4)))
    broken, first, second, third = sorted(await lab.store.calls(session_id), key=lambda call: call.id)
    await rewrite_call(lab, broken, b'{"state":{"type":"levitating"}}', 1)

    for whose in (None, session_id):
        page = await lab.store.pending.calls("waiting", whose, after="", limit=2)
        assert [call.id for call in page] == [first.id, second.id]
        page = await lab.store.pending.calls("waiting", whose, after=second.id, limit=2)
        assert [call.id for call in page] == [third.id]


@pytest.mark.spec("P-05")
async def test_a_call_that_is_not_async_is_no_pending_call(lab: Lab) -> None:
    session_id, _, (plain,) = await lab.start_calls(None)
    for unknown in (plain.id, CallId("tool_nothing"), CallId("")):
        with pytest.raises(NotFound, match="no pending call"):
            await lab.store.pending.call(unknown)
        with pytest.raises(NotFound, match="no pending call"):
            await lab.store.pending.resume(unknown)
    assert await lab.store.pending.calls("waiting", session_id, after="", limit=9) == ()


@pytest.mark.spec("P-08")
async def test_a_result_is_taken_while_a_start_that_was_cut_off_waits_to_run_again(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.move(claim, call, Running(claim.fence, LATER))
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    await lab.store.advance(claim, (CallMove(call.id, Requested()),))
    await lab.store.settle(call.id, completed_result())
    snapshot = await lab.store.advance(claim, (CallMove(call.id, Running(claim.fence)),))
    assert snapshot.executing_calls == ()
    assert state_of(await lab.store.call(call.id)) == "Settled"


async def test_a_call_that_never_started_takes_no_result(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(None)
    with pytest.raises(Conflict, match="not started"):
        await lab.store.settle(call.id, completed_result())


@pytest.mark.spec("P-07")
async def test_an_expiry_warning_is_published_once_and_wakes_no_session(lab: Lab) -> None:
    now = lab.clock.now()
    session_id, claim, (call,) = await lab.start_calls(waiting(lab, due=now + 100, warn=now + 90))
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    assert await lab.store.next_due() == now + 90
    lab.clock.advance(90)
    lab.commits.clear()
    assert await lab.store.expire() == 1
    (warning,) = (e for commit in lab.commits for e in commit.events if isinstance(e, AsyncToolExpiring))
    assert warning == AsyncToolExpiring(
        session_id=session_id, pending_id=call.id, tool=call.tool, timeout=now + 100
    )
    assert lab.woken == []
    assert await lab.store.expire() == 0
    assert await lab.store.next_due() == now + 100
    lab.clock.advance(10)
    assert await lab.store.expire() == 1
    expired = await lab.store.pending.call(call.id)
    assert pending_status(expired) == "expired"
    assert lab.woken == [session_id]


@pytest.mark.spec("P-07")
async def test_a_call_that_is_already_due_expires_without_a_warning(lab: Lab) -> None:
    now = lab.clock.now()
    _, _, (call,) = await lab.start_calls(waiting(lab, due=now + 100, warn=now + 90))
    lab.clock.advance(1_000)
    lab.commits.clear()
    assert await lab.store.expire() == 1
    assert not [e for commit in lab.commits for e in commit.events if isinstance(e, AsyncToolExpiring)]
    assert pending_status(await lab.store.pending.call(call.id)) == "expired"


async def test_secrets_are_kept_beside_a_call_and_go_with_its_session(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    secret = KeepSecret(session_id, call.id, "in", "whsec_abc")
    await lab.store.open_call(claim, call.id, waiting(lab), (secret,))
    assert await lab.store.pending.issued_secret(call.id) == "whsec_abc"
    assert "abc" not in repr(secret)
    await lab.store.delete_session(session_id)
    assert await lab.store.pending.issued_secret(call.id) is None


async def test_concurrent_proposals_of_a_first_key_agree_on_one(lab: Lab) -> None:
    assert await lab.store.pending.secret_keys() == ()
    proposed = [bytes([n]) * 32 for n in range(5)]
    answers = await asyncio.gather(*(lab.store.pending.ensure_key(key) for key in proposed))
    assert len(set(answers)) == 1
    new = await lab.store.pending.add_key(b"n" * 32)
    assert new == (b"n" * 32, *answers[0])


@pytest.mark.spec("P-15")
async def test_calls_settled_long_ago_are_forgotten_in_bounded_pieces(lab: Lab) -> None:
    session_id, claim, calls = await lab.start_calls(*(waiting(lab) for _ in range(4)))
    secret = KeepSecret(session_id, calls[0].id, "in", "whsec_abc")
    await lab.store.open_call(claim, calls[0].id, waiting(lab), (secret,))
    for call in calls[:3]:
        lab.clock.advance(10)
        await lab.store.settle(call.id, completed_result())
    parts = [entry.parts for entry in await lab.store.messages(session_id)]
    before = lab.clock.now() - 10

    assert await lab.store.pending.forget_settled(before, 1) == 1
    assert await lab.store.pending.forget_settled(before, 9) == 1
    assert await lab.store.pending.forget_settled(before, 9) == 0
    assert await lab.store.pending.issued_secret(calls[0].id) is None
    for gone in calls[:2]:
        with pytest.raises(NotFound):
            await lab.store.pending.call(gone.id)
    assert (await lab.store.pending.call(calls[2].id)).is_settled
    assert [entry.parts for entry in await lab.store.messages(session_id)] == parts


@pytest.mark.spec("P-05")
async def test_one_of_two_concurrent_results_counts_and_the_error_names_it(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(waiting(lab))
    both = await asyncio.gather(
        lab.store.settle(call.id, Completed("one")),
        lab.store.settle(call.id, Completed("two")),
        return_exceptions=True,
    )
    (kept,) = (each for each in both if not isinstance(each, BaseException))
    (refused,) = (each for each in both if isinstance(each, BaseException))
    assert isinstance(kept.state, Settled)
    assert isinstance(refused, AlreadySettled)
    assert isinstance(kept.state.result, Completed)
    assert kept.state.result.output in refused.first


async def test_a_question_that_goes_with_a_call_is_closed_by_its_result(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    asked = lab.question(session_id).question
    assert asked is not None
    state = Open(kind="async", since=lab.clock.now(), later=LATER, question=asked)
    await lab.store.open_call(claim, call.id, state)
    lab.commits.clear()
    await lab.store.settle(call.id, completed_result())
    closed = [e for commit in lab.commits for e in commit.events if isinstance(e, QuestionRejected)]
    assert [event.request_id for event in closed] == [asked.id]
