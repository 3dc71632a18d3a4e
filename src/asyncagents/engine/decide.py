"""Decide the next action of a session from its snapshot: pure, total, first match wins."""

from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.session_state import RestReason, Snapshot


class ReconcileCalls(Struct, frozen=True):
    """Calls whose process died: run again or settled as in doubt, by each call's effect."""

    calls: tuple[Call, ...]


class RunCalls(Struct, frozen=True):
    calls: tuple[Call, ...]


class AwaitCalls(Struct, frozen=True):
    """Wait until a call ends, a wake or a cancel."""


class CallModel(Struct, frozen=True):
    pass


class BackOff(Struct, frozen=True):
    """Wait until the next try of a failed request."""

    until: int


class Park(Struct, frozen=True):
    pass


class Rest(Struct, frozen=True):
    reason: RestReason


Decision: TypeAlias = ReconcileCalls | RunCalls | AwaitCalls | CallModel | BackOff | Park | Rest


def is_turn_over(session: Snapshot) -> bool:
    """Whether the turn has nothing left to do."""
    return decide(session) == Rest("done")


def decide(session: Snapshot) -> Decision:  # noqa: C901  the whole policy, on one screen
    if session.is_cancelled:
        return Rest("aborted")
    if session.in_crash_loop:
        return Rest("crash_loop")
    if session.abandoned_calls:
        return ReconcileCalls(session.abandoned_calls)
    if session.requested_calls:
        return RunCalls(session.requested_calls)
    if session.executing_calls:
        return AwaitCalls()
    if session.blocking_calls:
        return Park()
    if session.is_blocked:
        return Rest("blocked")
    if session.backoff and (session.control.in_turn or session.unread):  # else a cancel removed its input
        due = session.backoff.next_at <= session.now
        return CallModel() if due else BackOff(session.backoff.next_at)
    if session.step and session.step.error:
        return Rest("error")
    if session.ended_person_run:
        return Rest("ran")  # input that came meanwhile begins a turn of its own
    if session.unread or session.is_unanswered:
        return CallModel()
    if session.open_calls:
        return Park()
    if not session.control.in_turn or (session.step and session.step.finish != "tool-calls"):
        return Rest("done")
    return CallModel()
