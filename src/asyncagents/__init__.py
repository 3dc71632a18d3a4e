"""Agents that delegate to agents, and background work that cannot be lost."""

from asyncagents.app import open_runtime
from asyncagents.domain.call import Call, Completed, Failed
from asyncagents.domain.event import Event
from asyncagents.domain.history import Entry
from asyncagents.domain.session import Session
from asyncagents.engine.runtime import Runtime
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext
from asyncagents.errors import AsyncAgentsError, ToolError
from asyncagents.llm.model import Model
from asyncagents.llm.scripted import ScriptedModel, call, end, fail, pause, say, think

__all__ = [
    "Ask",
    "AsyncAgentsError",
    "Call",
    "Completed",
    "Entry",
    "Event",
    "Failed",
    "Model",
    "Pending",
    "Runtime",
    "ScriptedModel",
    "Session",
    "Tool",
    "ToolContext",
    "ToolError",
    "call",
    "end",
    "fail",
    "open_runtime",
    "pause",
    "say",
    "think",
]
