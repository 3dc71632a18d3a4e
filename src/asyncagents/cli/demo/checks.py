"""The demo's claims after the crash, checked against the store and the ledger."""

from typing import TypeAlias

from asyncagents.cli.demo.ledger import SOLD, STOCK, Ledger
from asyncagents.cli.demo.screen import DemoScreen
from asyncagents.cli.demo.shop import NEWS
from asyncagents.domain.call.call import IN_DOUBT
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolState
from asyncagents.domain.id import MessageId

History: TypeAlias = tuple[MessageWithParts, ...]


def check_prompt(screen: DemoScreen, history: History, message_id: MessageId) -> None:
    """Check that a prompt is stored once and has one complete answer."""
    there = [entry for entry in history if entry.info.id == message_id]
    answers = [entry for entry in history if _answers(entry, message_id)]
    screen.check(
        "The acknowledged prompt is there, once, and it has one answer.",
        holds=len(there) == len(answers) == 1,
        seen=f"{len(there)} prompts with {len(answers)} answers",
    )


def _answers(entry: MessageWithParts, message_id: MessageId) -> bool:
    info = entry.info
    if not isinstance(info, AssistantMessage) or info.parent_id != message_id:
        return False
    return info.finish == "stop" and info.error is None


def check_text(screen: DemoScreen, history: History, partial_text: str) -> None:
    """Check that the interrupted message is closed and the model started over, as it did not see it."""
    steps = [(entry.text, entry.info.error) for entry in history if isinstance(entry.info, AssistantMessage)]
    screen.check(
        "The half-written message is still there, closed with an error. The model did not see it and "
        "wrote the answer again, whole.",
        holds=[error is not None for _, error in steps] == [True, False]
        and steps[0][0].startswith(partial_text)
        and steps[1][0] == NEWS,
        seen=steps,
    )


def check_rerun(screen: DemoScreen, history: History, ledger: Ledger) -> None:
    """Check that an `idempotent` call ran in two processes under one key, with one effect."""
    runs, state = ledger.effects_of("update_stock"), state_of(history, "update_stock")
    keys, pids = {run.key for run in runs}, {run.pid for run in runs}
    screen.check(
        f"update_stock ran again with the same effect key: {STOCK} - {SOLD} = {STOCK - SOLD} lamps, "
        "taken once.",
        holds=(len(runs), len(keys), len(pids)) == (2, 1, 2)
        and ledger.stock() == STOCK - SOLD
        and isinstance(state, ToolCompleted),
        seen=(runs, ledger.stock(), state),
    )


def check_in_doubt(screen: DemoScreen, history: History, ledger: Ledger) -> None:
    """Check that a `once` call did not run again and was reported in doubt."""
    runs, state = ledger.effects_of("charge_card"), state_of(history, "charge_card")
    screen.check(
        "charge_card was not run again: the bank saw one charge, and the model was told of the doubt.",
        holds=len(runs) == 1 and isinstance(state, ToolFailed) and state.error == IN_DOUBT,
        seen=(runs, state),
    )


def check_history(screen: DemoScreen, before: History, after: History) -> None:
    """Check that nothing but the open call, in the last message, has changed."""
    screen.check(
        "All that was said in this session before the crash is there, unchanged.",
        holds=after[: len(before) - 1] == before[:-1] and after[len(before) - 1].info == before[-1].info,
        seen=after,
    )


def state_of(history: History, tool: str) -> ToolState | None:
    """Return the state of the newest call of a tool."""
    states = [part.state for part in tool_parts(history) if part.tool == tool]
    return states[-1] if states else None


def tool_parts(history: History) -> list[ToolPart]:
    return [part for entry in history for part in entry.parts if isinstance(part, ToolPart)]
