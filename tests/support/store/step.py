"""Steps of the store that summarise, fail or are retried."""

from msgspec.structs import replace

from asyncagents.domain.conversation.failure import api_error, unknown_error
from asyncagents.domain.conversation.part import (
    RetryPart,
    RetryTime,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import MessageId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import NewStep, NewSummary, OpenItems, StepRetry, SummaryEnd
from tests.support.store.lab import MODEL, Lab, Step


def build_summary_step(lab: Lab, *, since: int = 1, room: int | None = None) -> NewStep:
    summary = NewSummary(lab.ids.message(), lab.ids.part(), MODEL, room)
    return replace(lab.new_step(since), summary=summary)


async def start_summary(lab: Lab, claim: Claim, *, room: int | None = None) -> Step:
    new = build_summary_step(lab, room=room)
    started = await lab.store.start_step(claim, new)
    assert started is not None
    return Step(started, new.request_id)


def note_open_items(still: OpenItems) -> str:
    calls = [call.tool for call in still.calls]
    return f"open: {calls} {[todo.content for todo in still.todos]} {still.prompt!r}"


def build_summary_end(
    lab: Lab, step: Step, *, text: str = "All that was.", tail: MessageId | None = None, fails: bool = False
) -> SummaryEnd:
    end = lab.step_end(step, text=text, error=unknown_error("no") if fails else None)
    return SummaryEnd(
        end=end,
        position=step.started.position,
        tail_id=tail,
        note=note_open_items,
        note_id=lab.ids.part(),
        go_on="Go on.",
    )


async def answer_first_prompt(lab: Lab) -> tuple[Claim, MessageId]:
    """A session whose first prompt has been answered and whose second is unread."""
    session_id, first, claim = await lab.claim_prompted()
    await lab.end(claim, await lab.step(claim))
    await lab.store.rest(claim, 10**6, "done")
    await lab.prompt(session_id, "second")
    return await lab.claim(session_id), first


BUSY = api_error("overloaded", is_retryable=True, status_code=529)


def build_retry(
    lab: Lab, step: Step, *, wait: int = 60_000, said: bool = False, tokens: Tokens | None = None
) -> StepRetry:
    message = step.started.message
    end = lab.step_end(step, text="I beg", finish="error", error=BUSY, tokens=tokens)
    part = RetryPart(
        id=lab.ids.part(),
        session_id=message.session_id,
        message_id=message.id,
        attempt=step.started.attempt,
        error=BUSY,
        time=RetryTime(created=lab.clock.now()),
    )
    return StepRetry(end=replace(end, has_output=said), part=part, next_at=lab.clock.now() + wait)


async def fail_first_step(
    lab: Lab, *, said: bool = False, tokens: Tokens | None = None
) -> tuple[Claim, Step]:
    """A session whose first try failed and which waits, nobody running it."""
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    snapshot = await lab.store.retry_step(claim, build_retry(lab, step, said=said, tokens=tokens))
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    return claim, step
