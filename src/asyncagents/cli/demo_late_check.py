"""The demo's claims about pending calls, checked against the store and the ledger."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.cli.demo_check import History
from asyncagents.cli.demo_deploy import SHIP, SHIP_LATE, answer
from asyncagents.cli.demo_ledger import Effect
from asyncagents.cli.demo_screen import Screen
from asyncagents.cli.demo_worker import Brought
from asyncagents.domain.call import TIMED_OUT
from asyncagents.domain.message import AssistantMessage, UserMessage
from asyncagents.domain.pending_tool import PendingToolCall
from asyncagents.domain.why import Why


class Seen(Struct, frozen=True):
    """A session and one of its calls, as stored."""

    call: PendingToolCall
    why: Why
    history: History

    def said(self, prompt: str) -> list[str]:
        """Return the text of each step that answered a prompt."""
        [asked] = [entry.info.id for entry in self.history if _is(entry.info, prompt, entry.text)]
        return [
            entry.text
            for entry in self.history
            if isinstance(entry.info, AssistantMessage) and entry.info.parent_id == asked
        ]


def _is(info: object, prompt: str, text: str) -> bool:
    return isinstance(info, UserMessage) and text == prompt


def check_waits(screen: Screen, seen: Seen) -> None:
    screen.check(
        "The agent's process exited with code 0, and the file holds the waiting call.",
        holds=seen.call.status == "waiting" and (seen.why.code, seen.why.on) == ("async", (seen.call.id,)),
        seen=seen,
    )


def check_brought(screen: Screen, brought: Brought) -> None:
    first = brought.first
    screen.check(
        "The call took one result: the same again was answered alike, the other one was refused.",
        holds=first == brought.again
        and first.status == "completed"
        and first.result is not None
        and first.result.output in brought.refused,
        seen=brought,
    )


def check_resumed(screen: Screen, seen: Seen, done: PendingToolCall, runs: Sequence[Effect]) -> None:
    """Check for two steps: the call, and an answer with the result that only the worker could know."""
    result = done.result.output if done.result else ""
    started = [run.key for run in runs].count(done.id)
    screen.check(
        "The session went on exactly once, with the worker's words; the deploy was started once.",
        holds=seen.said(SHIP) == ["", answer(result)] and started == 1,
        seen=(seen.history, runs),
    )


def check_expired(screen: Screen, seen: Seen) -> None:
    call = seen.call
    screen.check(
        f'The call has expired, once; the agent was told "{TIMED_OUT}" and went on.',
        holds=(call.status, call.error) == ("expired", TIMED_OUT)
        and (call.time.completed or 0) > (call.timeout or 0)
        and seen.said(SHIP_LATE) == ["", answer(TIMED_OUT)]
        and seen.why.code == "idle",
        seen=seen,
    )
