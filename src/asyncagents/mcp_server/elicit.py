"""Asks as forms that an MCP client shows to its person, and the answers of those forms."""

from typing import Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from asyncagents.domain.call.call import Reject, Reply
from asyncagents.domain.call.form import form_schema, read_form
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.mcp_server.view import describe_ask

ANSWER, REASON = "answer", "reason"
ONCE, REJECT = "once", "reject"
MOST_SHOWN = 4_000
"""Characters of a call's arguments that a form shows."""


def build_form(waiting: WaitingCall) -> ElicitRequest | None:
    """Build the form of an ask; None: it cannot be answered by a form."""
    state, view = waiting.call.open, describe_ask(waiting)
    if state is None or view is None:
        return None
    if state.question is not None:
        message = "\n".join(each.question for each in state.question.questions)
        schema = form_schema(state.question.questions)
    else:
        message, schema = f"{view.text}\n{_show_call(waiting)}", _PERMISSION_SCHEMA
    return ElicitRequest(
        params=ElicitRequestFormParams(mode="form", message=message, requested_schema=schema)
    )


_PERMISSION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        ANSWER: {
            "type": "string",
            "title": "Answer",
            "description": "once: allow this call. reject: refuse it.",
            "enum": [ONCE, REJECT],
        },
        REASON: {"type": "string", "title": "Reason", "description": "Told to the agent if you reject."},
    },
    "required": [ANSWER],
}


def _show_call(waiting: WaitingCall) -> str:
    state = waiting.call.open
    diff = state.ask.metadata.get("diff") if state is not None and state.ask is not None else None
    text = diff if isinstance(diff, str) else _show_arguments(waiting.call.input)
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    note = f"[{len(text) - 2 * half} characters are not shown here: `asyncagents asks --json` has them]"
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def _show_arguments(given: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in given.items())


def read_answer(waiting: WaitingCall, filled: ElicitResult) -> Reply | str | None:
    """Read a filled form; None: the person gave no answer, so the ask stays open.

    Raises `InvalidInput` if a question has no answer.
    """
    state, content = waiting.call.open, filled.content or {}
    if state is None or filled.action == "cancel":
        return None
    if filled.action == "decline":
        return Reject()
    if state.question is not None:
        return read_form(state.question.questions, content)
    if content.get(ANSWER) == ONCE:
        return ONCE
    return Reject(str(content.get(REASON) or "")) if content.get(ANSWER) == REJECT else None
