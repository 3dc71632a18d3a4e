"""Put the open asks of a session tree to the client, and store the answers of the person."""

import asyncio
import logging
from typing import Any

import msgspec

from asyncagents.acp.file_change import show_changes
from asyncagents.acp.shape import (
    FormReply,
    OfferedOption,
    PermissionResult,
    ShownToolCall,
)
from asyncagents.acp.surroundings import Surroundings
from asyncagents.acp.tool_call import call_locations, call_title, text_content, tool_kind
from asyncagents.domain.call.ask import PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Answers, Reject, Reply
from asyncagents.domain.call.form import form_schema, read_form
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.id import SessionId
from asyncagents.errors import AsyncAgentsError, Conflict, InvalidInput, NotFound, Unavailable
from asyncagents.remote.json_rpc import ConnectionLoss, RpcError

ONCE, ALWAYS, REJECT = "once", "always", "reject"
MOST_TRIES = 3
"""How often an ask is put to the client if its answers cannot be used; it stays open after that."""

_log = logging.getLogger(__name__)


class AskDesk:
    """The asks of one session tree, each put to the client once on a connection.

    Only an explicit answer is stored. A cancelled request, an error or a lost connection leaves the ask open.
    """

    def __init__(self, root_id: SessionId, around: Surroundings) -> None:
        self._root_id = root_id
        self._server = around.server
        self._connection = around.connection
        self._own_sessions = around.capabilities.shows_subagents
        """Whether asks of children are put under their own session ids."""
        self._forms = around.capabilities.shows_forms
        self._by = around.answerer
        self._group = around.group
        self._open: dict[str, asyncio.Task[None]] = {}
        self._asked: set[str] = set()
        self._is_closed = False

    async def put_open_asks(self) -> dict[str, SessionId]:
        """Put all asks to the client that it does not know yet; return their ids and sessions."""
        fresh = {}
        for waiting in await self._server.call(lambda client: client.asks(self._root_id)):
            ask_id = waiting.call.ask_id
            if ask_id is not None and ask_id not in self._asked and not self._is_closed:
                self._asked.add(ask_id)
                self._open[ask_id] = self._group.create_task(self._put(ask_id, waiting))
                fresh[ask_id] = waiting.call.session_id
        return fresh

    def withdraw(self, ask_id: str) -> None:
        """Withdraw an ask that was answered elsewhere."""
        task = self._open.pop(ask_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Withdraw all asks from the client, and put no other one."""
        self._is_closed = True
        for ask_id in list(self._open):
            self.withdraw(ask_id)

    async def _put(self, ask_id: str, waiting: WaitingCall) -> None:
        problem = ""
        try:
            for _ in range(MOST_TRIES):
                try:
                    await self._put_once(ask_id, waiting, problem)
                    return
                except InvalidInput as error:
                    problem = str(error)
            _log.warning("ask=%s action=answer no usable answer, so it stays open: %s", ask_id, problem)
        except (RpcError, ConnectionLoss, Conflict, NotFound, Unavailable, msgspec.DecodeError):
            pass  # still open, or answered elsewhere
        except AsyncAgentsError as error:
            _log.warning("ask=%s action=answer failed, so it stays open: %s", ask_id, error)
        finally:
            self._open.pop(ask_id, None)

    async def _put_once(self, ask_id: str, waiting: WaitingCall, problem: str) -> None:
        """Put an ask to the person and store the answer. Raises `InvalidInput` if it cannot be used."""
        reply = await self._ask_person(waiting, problem)
        if reply is not None:
            await self._server.call(lambda client: client.answer(ask_id, reply, by=self._by))

    async def _ask_person(self, waiting: WaitingCall, problem: str) -> str | Reply | None:
        """Put an ask to the person. `problem`: what was wrong with the answer before."""
        state = waiting.call.open
        if state is None:
            return None
        if state.ask is not None:
            return await self._ask_permission(waiting, state.ask)
        if state.question is not None:
            return await self._ask_questions(waiting, state.question, problem)
        return None

    async def _ask_permission(self, waiting: WaitingCall, ask: PermissionRequest) -> str | None:
        options = [
            OfferedOption(option_id=ONCE, name="Allow once", kind="allow_once"),
            OfferedOption(option_id=REJECT, name="Reject", kind="reject_once"),
        ]
        if ask.always:
            name = f"Always allow {', '.join(ask.always)}"[:120]
            options.insert(1, OfferedOption(option_id=ALWAYS, name=name, kind="allow_always"))
        chosen = await self._choose(waiting, _describe_call(waiting, ask), tuple(options))
        return chosen if chosen in (ONCE, ALWAYS, REJECT) else None

    async def _choose(
        self, waiting: WaitingCall, call: ShownToolCall, options: tuple[OfferedOption, ...]
    ) -> str | None:
        """Return the id of the chosen option; None: none was chosen."""
        params = {"sessionId": self._session_of(waiting), "toolCall": call, "options": options}
        raw = await self._connection.request("session/request_permission", params)
        outcome = msgspec.json.decode(raw, type=PermissionResult).outcome
        return outcome.option_id if outcome.outcome == "selected" else None

    def _session_of(self, waiting: WaitingCall) -> SessionId:
        return waiting.call.session_id if self._own_sessions else self._root_id

    async def _ask_questions(
        self, waiting: WaitingCall, request: QuestionRequest, problem: str
    ) -> Reply | None:
        if self._forms:
            return await self._ask_form(waiting, request, problem)
        answers: list[tuple[str, ...]] = []
        for question in request.questions:
            labels = {f"option-{at}": each.label for at, each in enumerate(question.options)}
            options = [
                OfferedOption(option_id=each, name=label, kind="allow_once") for each, label in labels.items()
            ]
            dismiss = OfferedOption(option_id=REJECT, name="Dismiss", kind="reject_once")
            call = _describe_question(waiting, question)
            chosen = await self._choose(waiting, call, (*options, dismiss))
            if chosen == REJECT:
                return Reject()
            if chosen not in labels:
                return None
            answers.append((labels[chosen],))
        return Answers(tuple(answers))

    async def _ask_form(self, waiting: WaitingCall, request: QuestionRequest, problem: str) -> Reply | None:
        params = {
            "mode": "form",
            "sessionId": self._session_of(waiting),
            "message": "\n".join(filter(None, (problem, *(each.question for each in request.questions)))),
            "requestedSchema": form_schema(request.questions),
        }
        raw = await self._connection.request("elicitation/create", params)
        reply = msgspec.json.decode(raw, type=FormReply)
        match reply.action:
            case "accept":
                return read_form(request.questions, reply.content or {})
            case "decline":
                return Reject()
            case _:
                return None


def _describe_call(waiting: WaitingCall, ask: PermissionRequest) -> ShownToolCall:
    call, directory = waiting.call, waiting.lineage[-1].directory
    changes = show_changes(call.tool, call.input, ask.metadata, directory)
    shown = ask.metadata.get("diff")
    content = changes or ((text_content(f"```diff\n{shown}\n```"),) if isinstance(shown, str) else ())
    title = call_title(call.tool, call.input)
    children = " › ".join(each.title for each in waiting.lineage[1:])
    return ShownToolCall(
        tool_call_id=call.part_id,
        title=f"{children}: {title}" if children else title,
        kind=tool_kind(call.tool, ask.metadata),
        content=content,
        locations=call_locations(call.tool, call.input, directory, ask.metadata),
        raw_input=call.input,
        meta=_ask_meta(waiting, permission=ask.permission, patterns=ask.patterns),
    )


def _describe_question(waiting: WaitingCall, question: Question) -> ShownToolCall:
    options = "\n".join(f"- {each.label}: {each.description}" for each in question.options)
    return ShownToolCall(
        tool_call_id=waiting.call.part_id,
        title=question.question,
        kind="think",
        content=(text_content(options),) if options else (),
        meta=_ask_meta(waiting),
    )


def _ask_meta(waiting: WaitingCall, **more: Any) -> dict[str, Any]:
    lineage = [{"sessionId": each.id, "title": each.title} for each in waiting.lineage]
    return {"asyncagents": {"askId": waiting.call.ask_id, "lineage": lineage, **more}}
