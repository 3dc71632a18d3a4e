"""Agents that delegate to agents, and background work that cannot be lost."""

from asyncagents.app import open_runtime
from asyncagents.domain.call import Call, Completed, Failed
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAsked,
    PromptAnswered,
    QuestionAsked,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.history import Entry
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.engine.runtime import Runtime
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext
from asyncagents.errors import AlreadySettled, AsyncAgentsError, Conflict, InvalidInput, NotFound, ToolError
from asyncagents.llm.model import Model
from asyncagents.llm.scripted import ScriptedModel, call, end, fail, pause, say, think

__all__ = [
    "AlreadySettled",
    "Ask",
    "AsyncAgentsError",
    "Busy",
    "Call",
    "CallId",
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
    "PartDelta",
    "PartUpdated",
    "Pending",
    "PermissionAsked",
    "PromptAnswered",
    "QuestionAsked",
    "Retry",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionId",
    "SessionIdle",
    "SessionStatus",
    "Status",
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
