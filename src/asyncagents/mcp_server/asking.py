"""Put the asks of tasks to the person of a client; a model never answers a request for permission."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp_types import ElicitResult, InputRequests, InputRequiredResult
from pydantic import ValidationError

from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound, Unavailable
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.elicit import build_form, read_answer
from asyncagents.mcp_server.view import TaskView
from asyncagents.mcp_server.wait import wait_for_tasks

PERSON_SECONDS = 50.0
"""How long a person may take within a call; many clients cut a call off after a minute."""


async def build_requests(tasks: AgentTasks, task_id: SessionId | str) -> InputRequests:
    """Build a form for each open ask of a task, by the id of the ask."""
    requests: InputRequests = {}
    for waiting in await tasks.asks(task_id):
        form = build_form(waiting)
        if form is not None and waiting.call.ask_id is not None:
            requests[waiting.call.ask_id] = form
    return requests


async def request_input(
    tasks: AgentTasks, task_id: str, answers: Mapping[str, Any]
) -> InputRequiredResult | None:
    """Ask the client to fill forms and to make the same call again; None: there is nothing new to ask.

    `answers`: the forms that were filled before; one whose person gave no answer is not shown again.
    """
    requests = {
        ask_id: form
        for ask_id, form in (await build_requests(tasks, task_id)).items()
        if ask_id not in answers
    }
    return InputRequiredResult(input_requests=requests, request_state=task_id) if requests else None


async def answer_forms(tasks: AgentTasks, task_id: SessionId | str, answers: Mapping[str, Any]) -> None:
    """Store the answers of filled forms, by ask. One that was answered elsewhere is left out."""
    for waiting in await tasks.asks(task_id):
        ask_id = waiting.call.ask_id
        if ask_id is not None and ask_id in answers:
            await _store_answer(tasks, waiting, _parse_form(answers[ask_id]))


def _parse_form(filled: Any) -> ElicitResult:
    if isinstance(filled, ElicitResult):
        return filled
    try:
        return ElicitResult.model_validate(filled)
    except ValidationError as error:
        raise InvalidInput("an answer must be the result of a form: an action, and its content") from error


async def _store_answer(tasks: AgentTasks, waiting: WaitingCall, filled: ElicitResult) -> None:
    reply = read_answer(waiting, filled)
    if reply is not None and waiting.call.ask_id is not None:
        with suppress(Conflict, NotFound):  # answered elsewhere
            await tasks.answer(waiting.call.ask_id, reply)


async def put_asks(tasks: AgentTasks, caller: Caller, task_id: str, *, seconds: float) -> TaskView:
    """Put open asks to the person, one after the other, and wait on, for `seconds` at most."""
    now = asyncio.get_running_loop().time
    end, asked = now() + seconds, set[str]()
    while (waiting := _first_new(await tasks.asks(task_id), asked)) is not None and (left := end - now()) > 0:
        if not await _put(tasks, caller, waiting, seconds=left):
            break
        await wait_for_tasks(tasks, [task_id], until=1, seconds=max(0.0, end - now()), report=caller.report)
    return await tasks.view(task_id)


def _first_new(waiting: tuple[WaitingCall, ...], asked: set[str]) -> WaitingCall | None:
    """Return the first ask that was not put yet, and record that it is."""
    for each in waiting:
        if each.call.ask_id is not None and each.call.ask_id not in asked:
            asked.add(each.call.ask_id)
            return each
    return None


async def _put(tasks: AgentTasks, caller: Caller, waiting: WaitingCall, *, seconds: float) -> bool:
    """Put one ask to the person; return whether an answer came in time."""
    form, filled = build_form(waiting), None
    if form is None:
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            filled = await caller.fill_form(form)
    if filled is None or filled.action == "cancel":
        return False
    with suppress(InvalidInput):  # an answer is missing: the ask stays open
        await _store_answer(tasks, waiting, filled)
    return True


async def ask_person(
    tasks: AgentTasks, caller: Caller, waiting: WaitingCall, answers: Mapping[str, Any]
) -> InputRequiredResult | None:
    """Put one request for permission to the person. Returns what a modern client has to fill first."""
    ask_id, form = waiting.call.ask_id, build_form(waiting)
    if ask_id is not None and ask_id in answers:
        await _store_answer(tasks, waiting, _parse_form(answers[ask_id]))
    elif form is None or ask_id is None or not caller.fills_forms:
        word = "approve" if waiting.call.open is not None and waiting.call.open.approval else "once"
        raise InvalidInput(
            f"a person decides this, not a model: `asyncagents answer {ask_id} {word}`, or reject"
        )
    elif caller.is_modern:
        return InputRequiredResult(input_requests={ask_id: form}, request_state=waiting.call.session_id)
    elif not await _put(tasks, caller, waiting, seconds=PERSON_SECONDS):
        raise Unavailable("the person gave no answer; the ask is still open")
    return None
