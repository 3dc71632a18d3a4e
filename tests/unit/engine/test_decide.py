"""What a session does next, as a table: every arm, every earlier arm before each later one, properties."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, CallState, Requested, Running
from asyncagents.domain.conversation.failure import aborted_error, unknown_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.id import MessageId, RequestId
from asyncagents.domain.session_state import CLAIM_LIMIT, Backoff, Snapshot
from asyncagents.engine.decide import (
    AwaitCalls,
    BackOff,
    CallModel,
    Decision,
    Park,
    ReconcileCalls,
    Rest,
    RunCalls,
    decide,
)
from tests.support.domain.state import CONTROL, FENCE, call, open_state, step, user

IN_TURN = replace(CONTROL, state="running", fence=FENCE, turn=1, turn_rev=5, in_turn=True)
LOOPING = Snapshot(control=IN_TURN, last=step("tool-calls"))
"""In a turn, after a step whose calls are settled."""

ABANDONED = call(Running(FENCE - 1), id="tool_1_abandoned")
REQUESTED = call(Requested(), id="tool_2_requested")
EXECUTING = call(Running(FENCE), id="tool_3_executing")
ASK = call(open_state("ask"), id="tool_4_ask")
QUESTION = call(open_state("question"), id="tool_5_question")
ASYNC = call(open_state("async"), id="tool_6_async")
WAIT = call(open_state("wait"), id="tool_7_wait")


class Arm(Struct, frozen=True):
    """A trait that a snapshot may have, and what is decided when nothing before it in the table applies."""

    name: str
    trait: Callable[[Snapshot], Snapshot]
    decision: Decision


def having(call: Call) -> Callable[[Snapshot], Snapshot]:
    return lambda session: replace(session, calls=(*session.calls, call))


def controlled(**columns: int) -> Callable[[Snapshot], Snapshot]:
    return lambda session: replace(session, control=replace(session.control, **columns))


def ended(**fields: object) -> Callable[[Snapshot], Snapshot]:
    """The last step of the turn ended so."""
    return lambda session: replace(session, last=replace(session.last or step(), **fields))


def backing_off(next_at: int) -> Callable[[Snapshot], Snapshot]:
    backoff = Backoff(RequestId("req_1"), MessageId("msg_1"), 1, next_at, "overloaded")
    return lambda session: replace(session, backoff=backoff, now=5)


TABLE = [
    Arm("cancelled", controlled(cancel_rev=6), Rest("aborted")),
    Arm("crash loop", controlled(claims=CLAIM_LIMIT + 1), Rest("crash_loop")),
    Arm("abandoned", having(ABANDONED), ReconcileCalls((ABANDONED,))),
    Arm("requested", having(REQUESTED), RunCalls((REQUESTED,))),
    Arm("executing", having(EXECUTING), AwaitCalls()),
    Arm("ask", having(ASK), Park()),
    Arm("question", having(QUESTION), Park()),
    Arm("blocked", controlled(blocked_turn=1), Rest("blocked")),
    Arm("backing off", backing_off(9), BackOff(9)),
    Arm("due again", backing_off(5), CallModel()),
    Arm("error", ended(error=unknown_error("oh")), Rest("error")),
    Arm("ran", ended(finish=None), Rest("ran")),
    Arm("unread", lambda session: replace(session, queued=1), CallModel()),
    Arm("async", having(ASYNC), Park()),
    Arm("wait", having(WAIT), Park()),
    Arm("answered", ended(finish="stop"), Rest("done")),
    Arm("cut short", ended(finish="length"), Rest("done")),
    Arm("calls settled", lambda session: session, CallModel()),
]


@pytest.mark.spec("C-03")
@pytest.mark.parametrize("arm", TABLE, ids=lambda arm: arm.name)
def test_each_arm_decides_when_nothing_else_applies(arm: Arm) -> None:
    assert decide(arm.trait(LOOPING)) == arm.decision


@pytest.mark.spec("C-03")
@pytest.mark.parametrize(
    ("earlier", "later"), list(combinations(TABLE, 2)), ids=lambda arm: arm.name.replace(" ", "-")
)
def test_every_earlier_arm_beats_each_later_one(earlier: Arm, later: Arm) -> None:
    assert decide(earlier.trait(later.trait(LOOPING))) == earlier.decision


@pytest.mark.spec("C-03")
def test_all_calls_in_one_state_are_handled_together() -> None:
    again = replace(ABANDONED, id="tool_8_abandoned")
    assert decide(having(again)(having(ABANDONED)(LOOPING))) == ReconcileCalls((ABANDONED, again))
    more = replace(REQUESTED, id="tool_8_requested")
    assert decide(having(more)(having(REQUESTED)(LOOPING))) == RunCalls((REQUESTED, more))


IDLE = replace(CONTROL, state="running", fence=FENCE, turn=1, turn_rev=5)
"""Claimed between two turns."""


@pytest.mark.spec("C-03")
@pytest.mark.parametrize(
    ("session", "decision"),
    [
        pytest.param(Snapshot(control=IDLE), Rest("done"), id="a wake for nothing"),
        pytest.param(Snapshot(control=IDLE, queued=1), CallModel(), id="the first input of a turn"),
        pytest.param(Snapshot(control=IDLE, calls=(ASYNC,)), Park(), id="an open call outlived its turn"),
        pytest.param(
            Snapshot(control=IDLE, calls=(ASYNC,), queued=1), CallModel(), id="input beside an open call"
        ),
        pytest.param(
            Snapshot(control=replace(IDLE, cancel_rev=6)), Rest("done"), id="an abort with nothing to abort"
        ),
        pytest.param(
            Snapshot(control=replace(IDLE, cancel_rev=6), queued=1),
            CallModel(),
            id="input after an abort that found nothing",
        ),
        pytest.param(
            Snapshot(control=replace(IDLE, cancel_rev=6), stranded=1),
            Rest("aborted"),
            id="an abort before the first step",
        ),
        pytest.param(
            Snapshot(control=replace(IDLE, cancel_rev=4), stranded=1), Rest("done"), id="an abort of old"
        ),
        pytest.param(
            Snapshot(control=replace(IDLE, blocked_turn=1), queued=1), CallModel(), id="the block is over"
        ),
        pytest.param(
            Snapshot(control=IDLE, queued=1, last=step("error", unknown_error("oh"))),
            CallModel(),
            id="the error was of the turn before",
        ),
        pytest.param(Snapshot(control=IN_TURN, last=user()), CallModel(), id="a step was cut off"),
        pytest.param(
            Snapshot(control=IN_TURN, last=user(), calls=(ASYNC,)),
            CallModel(),
            id="a step was cut off beside an open call",
        ),
        pytest.param(Snapshot(control=IN_TURN), CallModel(), id="a turn without a step"),
        pytest.param(
            Snapshot(control=replace(IN_TURN, cancel_rev=4), last=user()), CallModel(), id="a later turn"
        ),
        pytest.param(
            Snapshot(control=IN_TURN, last=step("stop"), queued=1), CallModel(), id="more to answer"
        ),
        pytest.param(
            Snapshot(control=replace(IN_TURN, claims=CLAIM_LIMIT), last=user()),
            CallModel(),
            id="the last claim that may try",
        ),
        pytest.param(
            Snapshot(control=IN_TURN, last=step(None, aborted_error())),
            Rest("error"),
            id="a step with an error",
        ),
    ],
)
def test_each_snapshot_between_turns_or_at_their_edges_has_its_decision(
    session: Snapshot, decision: Decision
) -> None:
    assert decide(session) == decision


# Properties, on whatever the store could hand over.

numbers = st.integers(0, 9)
states: st.SearchStrategy[CallState] = st.one_of(
    st.just(Requested()),
    st.builds(Running, st.integers(1, FENCE)),
    st.builds(open_state, st.sampled_from(["ask", "question", "async", "wait"])),
)
controls = st.builds(
    lambda **columns: replace(IN_TURN, **columns),
    state=st.sampled_from(["idle", "ready", "running"]),
    turn=numbers,
    turn_rev=numbers,
    in_turn=st.booleans(),
    cancel_rev=numbers,
    blocked_turn=numbers,
    claims=numbers,
)
lasts = st.one_of(
    st.none(),
    st.just(user()),
    st.builds(
        step,
        st.sampled_from([None, "stop", "tool-calls", "length", "content-filter", "error", "unknown"]),
        st.sampled_from([None, unknown_error("oh"), aborted_error()]),
    ),
)
sessions = st.builds(
    Snapshot,
    control=controls,
    calls=st.lists(states.map(call), max_size=5).map(tuple),
    queued=st.integers(0, 2),
    stranded=st.integers(0, 1),
    last=lasts,
)


def engaged(session: Snapshot) -> tuple[Call, ...]:
    """Calls that run, must run, or hold the session."""
    return (
        *session.abandoned_calls,
        *session.requested_calls,
        *session.executing_calls,
        *session.blocking_calls,
    )


@pytest.mark.spec("C-03")
@given(sessions)
def test_a_decision_is_always_made_and_always_the_same(session: Snapshot) -> None:
    decision = decide(session)
    assert isinstance(decision, Decision)
    assert decide(session) == decision


@pytest.mark.spec("C-03", "C-10")
@given(sessions)
def test_a_cancelled_turn_does_nothing_but_end(session: Snapshot) -> None:
    if session.is_cancelled:
        assert decide(session) == Rest("aborted")
    else:
        assert decide(session) != Rest("aborted")


@pytest.mark.spec("C-03")
@given(sessions)
def test_the_model_is_asked_only_without_running_calls_and_without_errors(session: Snapshot) -> None:
    if decide(session) == CallModel():
        assert not engaged(session)
        assert not any((session.is_blocked, session.is_cancelled, session.in_crash_loop))
        assert session.step is None or session.step.error is None
        assert session.unread or session.control.in_turn


@pytest.mark.spec("C-03")
@given(sessions)
def test_the_model_is_asked_after_its_answer_only_if_input_is_unread(
    session: Snapshot,
) -> None:
    answered = isinstance(session.step, AssistantMessage) and session.step.finish != "tool-calls"
    if answered and not session.unread:
        assert decide(session) != CallModel()


@pytest.mark.spec("C-03")
@given(sessions)
def test_a_turn_ends_only_when_nothing_executes_or_holds(session: Snapshot) -> None:
    decision = decide(session)
    if isinstance(decision, Rest) and decision.reason not in {"aborted", "crash_loop"}:
        assert not engaged(session)


@pytest.mark.spec("C-03")
@given(sessions)
def test_a_turn_is_done_only_when_nothing_is_open_or_unread(session: Snapshot) -> None:
    if decide(session) == Rest("done"):
        assert not session.calls
        assert not session.unread


@pytest.mark.spec("C-03")
@given(sessions)
def test_a_session_parks_only_on_open_calls(session: Snapshot) -> None:
    if decide(session) == Park():
        assert session.open_calls
        assert session.blocking_calls or not session.unread
        assert not session.executing_calls


@pytest.mark.spec("C-03")
@given(sessions)
def test_the_order_of_the_calls_does_not_matter(session: Snapshot) -> None:
    backwards = replace(session, calls=session.calls[::-1])
    assert type(decide(backwards)) is type(decide(session))
