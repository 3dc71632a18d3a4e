"""A runtime and server for LLM agents with durable sessions, delegation and async tools."""

import warnings as _warnings

from asyncagents.app.runtime import open_runtime
from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.config.config import (
    AgentConfig,
    AsksConfig,
    AsyncToolsConfig,
    CommandConfig,
    Config,
    DelegationConfig,
    SandboxConfig,
    TelemetryConfig,
    WebhooksConfig,
)
from asyncagents.config.secret import Secret
from asyncagents.domain.agent.approval import Approval
from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import Always, Answers, Call, Completed, Failed, Once, Reject
from asyncagents.domain.call.pending_tool import PendingToolCall, ToolResult
from asyncagents.domain.call.result_file import ResultFile
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.call.webhook import Delivery
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import JsonFormat
from asyncagents.domain.conversation.part_input import AgentInput, FileInput, SubtaskInput, TextInput
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.conversation.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import (
    AsyncToolExpiring,
    CommandExecuted,
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionError,
    SessionIdle,
    SessionStatus,
    SessionUpdated,
    TaskCancelled,
    TaskCleared,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
    TodoUpdated,
)
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.task.board import BoardSnapshot, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.domain.why import Why
from asyncagents.engine.input.intake import CommandInfo
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext, WithFacts
from asyncagents.errors import (
    AlreadySettled,
    AsyncAgentsError,
    Closed,
    ConfigError,
    Conflict,
    InvalidInput,
    NotFound,
    ResultRefused,
    SessionBusy,
    ToolError,
    Unauthorized,
    Unavailable,
)
from asyncagents.llm.model import Attachment, Model
from asyncagents.llm.scripted import ScriptedModel, call, end, fail, pause, say, think
from asyncagents.plugins.api import Plugin, PluginContext, PluginHooks
from asyncagents.plugins.tool.approval import approval
from asyncagents.plugins.tool.decorate import async_tool, tool
from asyncagents.tools.builtin.wait import wait as wait_tool

__all__ = [
    "AgentConfig",
    "AgentInput",
    "AlreadySettled",
    "Always",
    "Answers",
    "Approval",
    "Ask",
    "AsksConfig",
    "AsyncAgentsError",
    "AsyncToolExpiring",
    "AsyncToolsConfig",
    "Attachment",
    "BackgroundTask",
    "BoardSnapshot",
    "Busy",
    "Call",
    "CallId",
    "Closed",
    "CommandConfig",
    "CommandExecuted",
    "CommandInfo",
    "Completed",
    "Config",
    "ConfigError",
    "Conflict",
    "DelegationConfig",
    "Delivery",
    "Event",
    "Failed",
    "FileInput",
    "Idle",
    "InvalidInput",
    "JsonFormat",
    "MessageId",
    "MessageUpdated",
    "MessageWithParts",
    "Model",
    "NotFound",
    "Once",
    "Option",
    "PartDelta",
    "PartUpdated",
    "Pending",
    "PendingToolCall",
    "PermissionAsked",
    "PermissionReplied",
    "Plugin",
    "PluginContext",
    "PluginHooks",
    "PromptAnswered",
    "Question",
    "QuestionAsked",
    "QuestionRejected",
    "QuestionReplied",
    "Reject",
    "ResultFile",
    "ResultRefused",
    "Retry",
    "Rule",
    "Runtime",
    "SandboxConfig",
    "ScriptedModel",
    "Secret",
    "Session",
    "SessionBusy",
    "SessionDeleted",
    "SessionError",
    "SessionId",
    "SessionIdle",
    "SessionStatus",
    "SessionUpdated",
    "Status",
    "SubtaskInput",
    "TaskCancelled",
    "TaskCleared",
    "TaskCompleted",
    "TaskCreated",
    "TaskFailed",
    "TaskGroup",
    "TaskPage",
    "TaskQuery",
    "TaskStats",
    "TaskUpdated",
    "TelemetryConfig",
    "TextInput",
    "Todo",
    "TodoUpdated",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Unauthorized",
    "Unavailable",
    "WaitingAsync",
    "WaitingCall",
    "WebhooksConfig",
    "Why",
    "WithFacts",
    "approval",
    "async_tool",
    "call",
    "end",
    "export_to",
    "fail",
    "import_from",
    "open_runtime",
    "pause",
    "say",
    "think",
    "tool",
    "wait_tool",
]

_RENAMED = {"Entry": "MessageWithParts", "Together": "WithFacts", "Waiting": "WaitingCall"}


def __getattr__(name: str) -> object:
    """Return a renamed class under its former name, with a warning."""
    if name in _RENAMED:
        text = f"asyncagents.{name} is called asyncagents.{_RENAMED[name]} now"
        _warnings.warn(text, DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
