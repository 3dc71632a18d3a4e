"""A try that failed: its wait is a row that survives, is charged, is woken when due, and ends in time."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import OpenKind
from asyncagents.domain.conversation.failure import APIError, Failure, aborted_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import RetryPart
from asyncagents.domain.conversation.session import SessionChanges, Tokens
from asyncagents.domain.conversation.status import Busy, Idle, Retry
from asyncagents.domain.event import PartUpdated, SessionStatus
from asyncagents.domain.session_state import Claim
from asyncagents.errors import ClaimLost
from tests.support.store.lab import ALICE, BOB, SPENT, Lab
from tests.support.store.step import BUSY, build_retry, fail_first_step


@pytest.mark.spec("C-05", "C-06")
async def test_a_failed_try_waits_as_a_row_and_the_status_shows_it(lab: Lab) -> None:
    claim, step = await fail_first_step(lab)
    due = lab.clock.now() + 60_000
    waiting = Retry(attempt=1, message="overloaded", next=due)
    assert await lab.store.status(claim.session_id) == waiting
    assert await lab.store.next_due() == due
    assert [e.status for e in lab.events if isinstance(e, SessionStatus)] == [Busy(), waiting]
    assert any(isinstance(e, PartUpdated) and isinstance(e.part, RetryPart) for e in lab.events)
    assert due in [each for commit in lab.commits for each in commit.due]
    ((_, message_id, state, _, _),) = await lab.requests(claim.session_id)
    assert message_id == step.id
    assert state == "backoff"


async def test_the_due_time_of_a_backoff_is_published_with_the_park(lab: Lab) -> None:
    """Whoever was told with the failure alone found nothing due, and looked again half a minute later."""
    _, _, claim = await lab.claim_prompted()
    snapshot = await lab.store.retry_step(claim, build_retry(lab, await lab.step(claim)))
    assert await lab.store.next_due() is None
    lab.commits.clear()
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    assert [due for commit in lab.commits for due in commit.due] == [await lab.store.next_due()]


async def test_a_session_in_backoff_is_woken_once_when_it_is_due(lab: Lab) -> None:
    claim, _ = await fail_first_step(lab)
    assert await lab.store.expire() == 0
    lab.clock.advance(60_000)
    lab.commits.clear()
    assert await lab.store.expire() == 1
    assert lab.woken == [claim.session_id]
    assert await lab.store.expire() == 0
    assert await lab.store.next_due() is None


@pytest.mark.parametrize("kind", ["task", "ask", "question"])
async def test_a_session_blocked_by_a_call_is_not_woken_for_its_next_try(lab: Lab, kind: OpenKind) -> None:
    """The call wakes it. A run before that could only stop again, and would be woken again, and again."""
    _, claim, (call,) = await lab.start_calls(None)
    step = await lab.step(claim)
    await lab.store.retry_step(claim, build_retry(lab, step))
    await lab.start(claim, call)
    await lab.store.open_call(claim, call.id, lab.open_state(kind))
    assert await lab.store.park(claim, (await lab.store.snapshot(claim)).control.wake_seq)
    lab.clock.advance(60_000)
    assert await lab.store.expire() == 0
    assert await lab.store.next_due() is None


async def test_the_next_try_reuses_the_message_of_a_try_without_output(lab: Lab) -> None:
    claim, step = await fail_first_step(lab)
    lab.clock.advance(60_000)
    await lab.store.expire()
    claim = await lab.claim(claim.session_id, BOB)
    again = await lab.step(claim)
    assert again.id == step.id
    assert again.started.position == step.started.position
    assert again.started.attempt == 2
    assert await lab.store.status(claim.session_id) == Busy()
    await lab.end(claim, again)
    assert await lab.positions(claim.session_id) == [1, 2]
    states = [(row[2], row[4]) for row in await lab.requests(claim.session_id)]
    assert states == [("failed", 1), ("done", 0)]


async def test_output_of_a_failed_try_is_closed_hidden_and_charged(lab: Lab) -> None:
    claim, step = await fail_first_step(lab, said=True)
    cut = await lab.store.message(step.id)
    assert isinstance(cut.info, AssistantMessage)
    assert isinstance(cut.info.error, APIError)
    assert cut.text == "I beg"
    assert cut.info.time.completed == lab.clock.now()
    history = await lab.store.history(claim.session_id)
    assert step.id not in [entry.info.id for entry in history]
    assert ((await lab.store.session(claim.session_id)).tokens or Tokens.zero()).input > 0
    again = await lab.step(await _woken(lab, claim))
    assert (again.id != step.id) is True
    assert again.started.attempt == 2


async def _woken(lab: Lab, claim: Claim) -> Claim:
    lab.clock.advance(60_000)
    await lab.store.expire()
    return await lab.claim(claim.session_id)


@pytest.mark.parametrize(
    ("said", "tokens", "charged"), [(False, None, 0), (False, SPENT, SPENT.input), (True, SPENT, SPENT.input)]
)
async def test_a_failed_try_is_charged_its_reported_tokens_or_nothing(
    lab: Lab, said: bool, tokens: Tokens | None, charged: int
) -> None:
    claim, _ = await fail_first_step(lab, said=said, tokens=tokens)
    assert ((await lab.store.session(claim.session_id)).tokens or Tokens.zero()).input == charged


async def test_input_during_a_backoff_is_answered_in_a_new_message(lab: Lab) -> None:
    claim, step = await fail_first_step(lab)
    newer = await lab.prompt(claim.session_id, "and more")
    claim = await lab.claim(claim.session_id)
    waiting = await lab.store.snapshot(claim)
    assert waiting.backoff is not None
    assert waiting.backoff.attempt == 1
    assert waiting.unread == 1
    assert (waiting.now < waiting.backoff.next_at) is True
    lab.clock.advance(60_000)
    again = await lab.step(claim)
    assert (again.id != step.id) is True
    assert again.started.attempt == 2
    assert again.started.message.parent_id == newer
    old = await lab.store.message(step.id)
    assert isinstance(old.info, AssistantMessage)
    assert (old.info.error is not None) is True
    assert (old.info.time.completed is not None) is True


async def test_a_park_for_a_backoff_answers_no_prompt(lab: Lab) -> None:
    _, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    snapshot = await lab.store.retry_step(claim, build_retry(lab, step))
    await lab.store.park(claim, snapshot.control.wake_seq)
    assert (await lab.store.input(prompt)).answer_id is None


@pytest.mark.spec("C-10")
async def test_an_abort_ends_the_backoff(lab: Lab) -> None:
    claim, step = await fail_first_step(lab)
    await lab.store.cancel(claim.session_id)
    claim = await lab.claim(claim.session_id)
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "aborted")
    assert await lab.store.status(claim.session_id) == Idle()
    assert await lab.store.next_due() is None
    assert [row[2] for row in await lab.requests(claim.session_id)] == ["failed"]
    closed = await lab.store.message(step.id)
    assert isinstance(closed.info, AssistantMessage)
    assert closed.info.error is not None


async def test_a_repeated_retry_changes_nothing_and_a_lost_claim_is_refused(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    retry = build_retry(lab, step, tokens=SPENT)
    first = await lab.store.retry_step(claim, retry)
    again = await lab.store.retry_step(claim, replace(retry, next_at=retry.next_at + 5))
    assert again.backoff == first.backoff
    assert ((await lab.store.session(claim.session_id)).tokens or Tokens.zero()).input == SPENT.input
    await lab.claim(claim.session_id, BOB, dead=ALICE)
    with pytest.raises(ClaimLost):
        await lab.store.retry_step(claim, retry)
    with pytest.raises(ClaimLost):
        await lab.store.hold_step(claim, lab.ids.request(), until=9, why="")


async def test_a_step_may_be_held_before_its_first_try_and_held_longer(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    until = lab.clock.now() + 9_000
    held = await lab.store.hold_step(claim, lab.ids.request(), until=until, why="cooling")
    assert held.backoff is not None
    assert held.backoff.attempt == 0
    assert held.backoff.next_at == until
    assert not held.control.in_turn
    assert await lab.store.status(session_id) == Retry(attempt=1, message="cooling", next=until)
    longer = await lab.store.hold_step(claim, lab.ids.request(), until=until + 1, why="still")
    assert longer.backoff == replace(held.backoff, next_at=until + 1, failure="still")
    step = await lab.step(claim)
    assert step.started.attempt == 1
    assert len(await lab.requests(session_id)) == 2


async def test_a_later_try_is_estimated_like_the_first(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id, "a long story " * 500)
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    await lab.store.retry_step(claim, build_retry(lab, step, wait=0))
    again = await lab.step(claim, since=step.started.position)
    await lab.end(claim, again, tokens=None)
    assert ((await lab.store.session(session_id)).tokens or Tokens.zero()).input > 1_000


@pytest.mark.parametrize(("error", "charged"), [(BUSY, False), (aborted_error(), True)])
async def test_a_request_that_failed_without_output_is_free_unless_aborted(
    lab: Lab, error: Failure, charged: bool
) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    end = lab.step_end(step, text="", error=error, tokens=None)
    await lab.store.finish_step(claim, replace(end, has_output=False))
    spent = (await lab.store.session(session_id)).tokens or Tokens.zero()
    assert (spent.input > 0) is charged


async def test_a_turn_that_ends_during_a_backoff_closes_its_message(lab: Lab) -> None:
    claim, step = await fail_first_step(lab)
    await lab.prompt(claim.session_id)
    claim = await lab.claim(claim.session_id)
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "blocked")
    closed = await lab.store.message(step.id)
    assert isinstance(closed.info, AssistantMessage)
    assert (closed.info.time.completed is not None) is True
    assert (closed.info.error is not None) is True


async def test_a_backoff_survives_the_death_of_its_owner(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.store.retry_step(claim, build_retry(lab, step))
    claim = await lab.claim(claim.session_id, BOB, dead=ALICE)
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.backoff is not None
    assert snapshot.backoff.attempt == 1
    assert snapshot.backoff.message_id == step.id


@pytest.mark.spec("S-02")
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Fix the login page", "Fix the login page"),
        ("\n\n  # Fix   the\tlogin\nand more", "Fix the login"),
        ("word " * 40, "word " * 11 + "word…"),
        ("x" * 200, "x" * 60 + "…"),
    ],
)
async def test_the_first_prompt_names_a_root_session(lab: Lab, text: str, title: str) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id, text)
    await lab.prompt(session_id, "something else")
    assert (await lab.store.session(session_id)).title == title


@pytest.mark.spec("S-02")
async def test_other_input_does_not_change_the_title_of_a_session(lab: Lab) -> None:
    named = await lab.session()
    await lab.store.conversation.update_session(named, SessionChanges(title="Mine"))
    await lab.prompt(named, "hello")
    child = await lab.session(parent=named)
    await lab.prompt(child, "hello")
    told = await lab.session()
    await lab.prompt(told, "a result", source="system")
    titles = [(await lab.store.session(each)).title for each in (named, child, told)]
    assert titles[0] == "Mine"
    assert titles[1][:13] == "Child session"
    assert titles[2][:11] == "New session"
