"""Agents that delegate to agents, and background work that cannot be lost."""

from asyncagents.app import open_runtime
from asyncagents.domain.ask import Option, Question
from asyncagents.domain.call import Call, Completed, Failed, Reject
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAsked,
    PromptAnswered,
    QuestionAsked,
    SessionDeleted,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.history import Entry
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.engine.runtime import Runtime
from asyncagents.engine.tool import Ask, Pending, Together, Tool, ToolContext
from asyncagents.errors import (
    AlreadySettled,
    AsyncAgentsError,
    Closed,
    Conflict,
    InvalidInput,
    NotFound,
    ToolError,
)
from asyncagents.llm.model import Attachment, Model
from asyncagents.llm.scripted import ScriptedModel, call, end, fail, pause, say, think

__all__ = [
    "AlreadySettled",
    "Ask",
    "AsyncAgentsError",
    "Attachment",
    "Busy",
    "Call",
    "CallId",
    "Closed",
    "Completed",
    "Conflict",
    "Entry",
    "Event",
    "Failed",
    "Idle",
    "InvalidInput",
    "MessageId",
    "MessageUpdated",
    "Model",
    "NotFound",
    "Option",
    "PartDelta",
    "PartUpdated",
    "Pending",
    "PermissionAsked",
    "PromptAnswered",
    "Question",
    "QuestionAsked",
    "Reject",
    "Retry",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionDeleted",
    "SessionId",
    "SessionIdle",
    "SessionStatus",
    "Status",
    "Together",
    "Tool",
    "ToolContext",
    "ToolError",
    "WaitingAsync",
    "call",
    "end",
    "fail",
    "open_runtime",
    "pause",
    "say",
    "think",
]
