"""Translate events of a session tree into updates for a client; each piece of text is sent once."""

from collections.abc import Mapping

from msgspec.structs import replace

from asyncagents.acp.content import file_block
from asyncagents.acp.shape import (
    AgentChunk,
    AnyUpdate,
    ClientCapabilities,
    CompactionUpdate,
    InfoUpdate,
    NoticeUpdate,
    PlanUpdate,
    SessionUpdateParams,
    ShownPlanEntry,
    TextContent,
    ThoughtChunk,
    ToolCallBegin,
    ToolCallChange,
    UsageCost,
    UsageUpdate,
    UserChunk,
)
from asyncagents.acp.subagent import SubagentTranslator
from asyncagents.acp.tool_call import PLAN_TOOLS, ShownCall, show_call
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.conversation.failure import Failure, MessageAbortedError, describe_failure
from asyncagents.domain.conversation.message import AssistantMessage, Message
from asyncagents.domain.conversation.part import (
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolFailed,
    ToolPart,
    UnknownPart,
)
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    SessionCompacted,
    SessionCreated,
    SessionStatus,
    SessionUpdated,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
    TodoUpdated,
)
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.task.view import iso_time
from asyncagents.domain.window import tokens_used

MAX_PARTS = 20_000
"""Parts remembered so that no text is sent twice; the oldest are dropped, and are complete by then."""
MAX_MESSAGES = 5_000
_PLAN_STATUS = {"cancelled": "completed"}
"""The protocol has no cancelled entry of a plan."""
STATE_KEY = "asyncagents"


class Translator:
    """Remembers what a client has received of a session tree, and returns what is new in an event."""

    def __init__(self, root: Session, capabilities: ClientCapabilities, windows: Mapping[str, int]) -> None:
        """`windows`: the window of each model in tokens, by `provider/model`."""
        self._root_id = root.id
        self._directory = root.directory
        self._title = root.title
        self._costs = {root.id: root.cost or 0.0}
        """What each session has cost."""
        self._usages: dict[SessionId, UsageUpdate] = {}
        """The last usage of each session."""
        self._capabilities = capabilities
        self._windows = windows
        self._sent: BoundedDict[PartId, int] = BoundedDict(MAX_PARTS)
        """Characters that were sent of each text."""
        self._thoughts: BoundedDict[PartId, None] = BoundedDict(MAX_PARTS)
        self._calls: BoundedDict[PartId, ShownCall] = BoundedDict(MAX_PARTS)
        self._messages: BoundedDict[MessageId, Message] = BoundedDict(MAX_MESSAGES)
        self._own_prompts: BoundedDict[MessageId, None] = BoundedDict(MAX_MESSAGES)
        self._plans: dict[SessionId, tuple[Todo, ...]] = {}
        self._states: dict[SessionId, str] = {}
        self._summaries: dict[SessionId, MessageId] = {}
        """The last message of each session that is a summary."""
        self._asking: dict[str, SessionId] = {}
        """The session of each open ask."""
        self._subagents = SubagentTranslator(root.id, shows_sessions=capabilities.shows_subagents)

    def expect_prompt(self, message_id: MessageId) -> None:
        """Do not send the text of a prompt back to the client that sent it."""
        self._own_prompts[message_id] = None

    def translate(self, event: Event) -> list[SessionUpdateParams]:
        match event:
            case SessionCreated(info=info) | SessionUpdated(info=info) if info.id != self._root_id:
                met = self._subagents.meet_session(info)
                shown = self._subagents.shows(info.id)
                cost = [SessionUpdateParams(info.id, each) for each in self._translate_cost(info)]
                return [*met, *cost] if shown else met
            case (
                TaskCreated(task=task)
                | TaskUpdated(task=task)
                | TaskCompleted(task=task)
                | TaskFailed(task=task)
                | TaskCancelled(task=task)
            ):
                return self._subagents.show_task(task)
            case _:
                pass
        session_id = event.session_id
        if session_id is None or not (session_id == self._root_id or self._subagents.shows(session_id)):
            return []
        return [SessionUpdateParams(session_id, update) for update in self._updates(session_id, event)]

    def _updates(self, session_id: SessionId, event: Event) -> list[AnyUpdate]:
        match event:
            case PartDelta():
                return self._translate_delta(event)
            case PartUpdated(part=part):
                return self._translate_part(part)
            case MessageUpdated(info=info):
                return self._translate_message(info)
            case TodoUpdated(todos=todos):
                return self._translate_todos(session_id, todos)
            case SessionUpdated(info=info):
                return self._translate_session(info)
            case SessionStatus(status=status):
                return self._translate_status(session_id, status)
            case SessionCompacted() if self._capabilities.shows_compaction:
                summary_id = self._summaries.get(session_id, session_id)
                return [CompactionUpdate(compaction_id=f"compaction-{summary_id}", status="completed")]
            case _:
                return []

    def _translate_delta(self, delta: PartDelta) -> list[AnyUpdate]:
        sent = self._sent.get(delta.part_id)
        if sent is None or delta.offset > sent:  # the row of the part brings what is missing
            return []
        text = delta.delta[sent - delta.offset :]
        if not text:
            return []
        self._sent[delta.part_id] = sent + len(text)
        return self._chunk(delta.part_id, delta.message_id, text)

    def _translate_part(self, part: Part | UnknownPart) -> list[AnyUpdate]:
        match part:
            case TextPart(synthetic=True):
                return []
            case TextPart() | ReasoningPart():
                return self._translate_text(part)
            case ToolPart():
                return self._translate_call(part)
            case FilePart() if part.id not in self._sent and self._is_foreign_prompt(part.message_id):
                self._sent[part.id] = 0
                return [UserChunk(content=file_block(part), message_id=part.message_id)]
            case _:
                return []

    def _translate_text(self, part: TextPart | ReasoningPart) -> list[AnyUpdate]:
        if isinstance(part, ReasoningPart):
            self._thoughts[part.id] = None
        sent = self._sent.get(part.id, 0)
        self._sent[part.id] = max(sent, len(part.text))
        text = part.text[sent:]
        return self._chunk(part.id, part.message_id, text) if text else []

    def _chunk(self, part_id: PartId, message_id: MessageId, text: str) -> list[AnyUpdate]:
        content, info = TextContent(text=text), self._messages.get(message_id)
        if isinstance(info, AssistantMessage) and info.summary:
            return []  # a summary is written for the model
        if part_id in self._thoughts:
            return [ThoughtChunk(content=content, message_id=message_id)]
        if info is not None and info.role == "user":
            own = message_id in self._own_prompts
            return [] if own else [UserChunk(content=content, message_id=message_id)]
        return [AgentChunk(content=content, message_id=message_id)]

    def _is_foreign_prompt(self, message_id: MessageId) -> bool:
        info = self._messages.get(message_id)
        return info is not None and info.role == "user" and message_id not in self._own_prompts

    def _translate_call(self, part: ToolPart) -> list[AnyUpdate]:
        if part.tool in PLAN_TOOLS and not isinstance(part.state, ToolFailed):
            return []
        before, call = self._calls.get(part.id), show_call(part, self._directory)
        if before is not None and before.status == "in_progress" and call.status == "pending":
            call = replace(call, status="in_progress")  # an approved call is requested once more
        if call == before:
            return []
        self._calls[part.id] = call
        kind = ToolCallBegin if before is None else ToolCallChange
        return [
            kind(
                tool_call_id=part.id,
                title=call.title,
                kind=call.kind,
                status=call.status,
                content=call.content,
                locations=call.locations,
                raw_input=call.input,
            )
        ]

    def _translate_message(self, info: Message) -> list[AnyUpdate]:
        before = self._messages.get(info.id)
        self._messages[info.id] = info
        if isinstance(info, AssistantMessage) and info.summary:
            self._summaries[info.session_id] = info.id
        if not isinstance(info, AssistantMessage) or info.time.completed is None or info == before:
            return []
        updates = self._failure(info.error, info.id)
        size = self._windows.get(f"{info.provider_id}/{info.model_id}", 0)
        used = tokens_used(info.tokens)
        if size and used and not info.summary:
            usage = UsageUpdate(used=used, size=size, cost=self._shown_cost(info.session_id))
            self._usages[info.session_id] = usage
            updates.append(usage)
        return updates

    def _translate_cost(self, info: Session) -> list[AnyUpdate]:
        """Show the last usage once more when the session has counted what it cost."""
        before, self._costs[info.id] = self._costs.get(info.id, 0.0), info.cost or 0.0
        usage = self._usages.get(info.id)
        if usage is None or before == self._costs[info.id]:
            return []
        return [replace(usage, cost=self._shown_cost(info.id))]

    def _shown_cost(self, session_id: SessionId) -> UsageCost | None:
        amount = self._costs.get(session_id, 0.0)
        return UsageCost(amount=amount, currency="USD") if amount else None

    def _failure(self, error: Failure | None, message_id: MessageId) -> list[AnyUpdate]:
        """Show an error that ended an answer; an abort is what the person wanted."""
        if error is None or isinstance(error, MessageAbortedError):
            return []
        _, why = describe_failure(error)
        if self._capabilities.shows_notices:
            return [NoticeUpdate(severity="error", title="The answer failed", description=why)]
        text = f"\n\nThe answer failed: {why}"
        return [AgentChunk(content=TextContent(text=text), message_id=message_id)]

    def _translate_todos(self, session_id: SessionId, todos: tuple[Todo, ...]) -> list[AnyUpdate]:
        if todos == self._plans.get(session_id, ()):
            return []
        self._plans[session_id] = todos
        return [
            PlanUpdate(
                entries=tuple(
                    ShownPlanEntry(
                        content=todo.content,
                        priority=todo.priority,
                        status=_PLAN_STATUS.get(todo.status, todo.status),
                    )
                    for todo in todos
                )
            )
        ]

    def _translate_session(self, info: Session) -> list[AnyUpdate]:
        updates = self._translate_cost(info)
        if info.title == self._title:
            return updates
        self._title = info.title
        return [*updates, InfoUpdate(title=info.title, updated_at=iso_time(info.time.updated))]

    def _translate_status(self, session_id: SessionId, status: Status) -> list[AnyUpdate]:
        state = "idle" if isinstance(status, Idle) else "running"
        return self._change_state(session_id, state)

    def begin_ask(self, ask_id: str, session_id: SessionId) -> list[SessionUpdateParams]:
        """Show that the tree waits for a person, and which of its subagents does."""
        self._asking[ask_id] = session_id
        child = self._subagents.show_asking(session_id, is_asking=True)
        return [*self._state_update("requires_action"), *child]

    def end_ask(self, ask_id: str) -> list[SessionUpdateParams]:
        """Show that the tree, and the subagent that asked, go on once no ask is left."""
        session_id = self._asking.pop(ask_id, None)
        if session_id is None or session_id in self._asking.values():
            return []
        child = self._subagents.show_asking(session_id, is_asking=False)
        root = [] if self._asking else self._state_update(self._states.get(self._root_id, "running"))
        return [*root, *child]

    def _state_update(self, state: str) -> list[SessionUpdateParams]:
        return [SessionUpdateParams(self._root_id, InfoUpdate(meta={STATE_KEY: {"state": state}}))]

    def _change_state(self, session_id: SessionId, state: str) -> list[AnyUpdate]:
        if self._states.get(session_id) == state:
            return []
        self._states[session_id] = state
        return [InfoUpdate(meta={STATE_KEY: {"state": state}})]
