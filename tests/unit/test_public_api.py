"""The public names: all that users may rely on, spelled out so that none comes or goes unnoticed."""

import types

import pytest

import asyncagents
import asyncagents.client

PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert asyncagents.__all__ == PUBLIC


CLIENT = [
    "BoardEvent",
    "BoardSnapshot",
    "Client",
    "ClientPromptOptions",
    "Health",
    "SentFile",
    "SessionState",
    "TaskGroup",
    "TaskPage",
    "TaskRemoved",
    "TaskStats",
    "open_client",
]


def test_the_public_names_of_the_client_are_these() -> None:
    assert asyncagents.client.__all__ == CLIENT == sorted(CLIENT)
    assert all(hasattr(asyncagents.client, name) for name in CLIENT)


def test_the_public_names_are_sorted_and_exist() -> None:
    assert sorted(PUBLIC) == PUBLIC
    assert all(hasattr(asyncagents, name) for name in PUBLIC)


def test_the_package_exports_only_the_public_names() -> None:
    exported = [
        name
        for name, value in vars(asyncagents).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ]
    assert sorted(exported) == PUBLIC


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (asyncagents, "Entry", "MessageWithParts"),
        (asyncagents, "Together", "WithFacts"),
        (asyncagents, "Waiting", "WaitingCall"),
        (asyncagents.client, "Removed", "TaskRemoved"),
        (asyncagents.client, "To", "ClientPromptOptions"),
    ],
)
def test_a_former_name_still_works_and_warns(module: types.ModuleType, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is called .*{new} now"):
        assert getattr(module, old) is getattr(module, new)
