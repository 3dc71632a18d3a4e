"""What flows of delegation have in common: a stage whose agents launch others, and what is seen of tasks."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from asyncagents.config.config import Config, DelegationConfig
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.status import Busy, Idle, Retry
from asyncagents.domain.event import TaskCancelled, TaskCompleted, TaskFailed
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.model import ChatRequest, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptedModel, ScriptLine, ScriptStep, call
from tests.support.git import create_repository
from tests.support.runtime import Stage, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

RequestStep: TypeAlias = ScriptStep | Callable[[ChatRequest], ScriptStep]
RequestScript: TypeAlias = Mapping[str, Sequence[RequestStep]]
End: TypeAlias = TaskCompleted | TaskFailed | TaskCancelled
E = TypeVar("E", TaskCompleted, TaskFailed, TaskCancelled)


def allow_all(ask: Any, context: Any) -> Any:
    return "allow"


class RequestScriptModel(ScriptedModel):
    """A script whose steps may depend on what the model was told, such as the id of a task."""

    def __init__(self, scenes: RequestScript) -> None:
        script: Any = scenes
        super().__init__(script)

    def _step(self, request: ChatRequest) -> ScriptStep:
        scene: RequestStep = super()._step(request)
        return scene(request) if callable(scene) else scene

    def requests_of(self, first: str) -> list[ChatRequest]:
        """The requests of the session that began with this text."""
        return [request for request in self.requests if request.messages[0] == UserTurn(first)]


@asynccontextmanager
async def open_delegation_stage(
    data: Path, scenes: RequestScript, *tools: AnyTool, limits: DelegationConfig | None = None, **more: Any
) -> AsyncIterator[Stage]:
    """A stage where agents launch agents, and nobody is asked."""
    delegation = limits or DelegationConfig(tools="both")
    more.setdefault("policy", allow_all)
    async with open_stage(data, RequestScriptModel(scenes), tools=tools, delegation=delegation, **more) as at:
        yield at


def call_task(name: str, prompt: str, **more: Any) -> ScriptLine:
    return call("task", description=name, prompt=prompt, subagent_type="general", **more)


def launch_task(name: str, prompt: str, **more: Any) -> ScriptLine:
    return call("asyncagents_task", description=name, prompt=prompt, agent="general", **more)


def fire_task(name: str, prompt: str) -> ScriptLine:
    return call("async_task", description=name, prompt=prompt, agent="general")


def call_with_id(tool: str, which: int = 0, /, **more: Any) -> Callable[[ChatRequest], ScriptStep]:
    """A call about the task that was launched first, or as its last."""
    return lambda request: [call(tool, task_id=task_ids(request)[which], **more)]


def task_ids(request: ChatRequest) -> list[str]:
    """Of the tasks that a model knows of, in the order it was told of them."""
    texts = [told.output for told in request.messages if isinstance(told, ToolTurn)]
    found = [each for text in texts for each in re.findall(r"\bses_\w+", text)]
    return list(dict.fromkeys(found))


def request_outputs(request: ChatRequest) -> list[str]:
    return [told.output for told in request.messages if isinstance(told, ToolTurn)]


async def task_named(runtime: Runtime, name: str) -> BackgroundTask:
    (found,) = [task for task in await runtime.tasks.list() if task.description == name]
    return found


async def wait_for_task_end(at: Stage, name: str, kind: type[E]) -> E:
    return await at.listener.until(kind, lambda event: event.task.description == name)


async def child_session(at: Stage, name: str) -> SessionId:
    return (await task_named(at.runtime, name)).session_id


async def wait_until_quiet(runtime: Runtime, session_id: SessionId) -> None:
    """Nobody of its tree is at work."""
    async with asyncio.timeout(PATIENCE):
        await runtime.wait_tree(await runtime.root_of(session_id))


async def wait_until_rest(runtime: Runtime, session_id: SessionId) -> None:
    async with asyncio.timeout(PATIENCE):
        status = await runtime.wait(session_id)
    assert not isinstance(status, Busy | Retry)


def find_notices(entries: Sequence[MessageWithParts]) -> list[MessageWithParts]:
    """Messages that tell of ends of tasks."""
    return [entry for entry in entries if isinstance(entry.info, UserMessage) and _tells(entry)]


def _tells(entry: MessageWithParts) -> bool:
    return any("Task Progress:" in text for text in visible_texts(entry))


def visible_texts(entry: MessageWithParts) -> list[str]:
    return [part.text for part in entry.parts if isinstance(part, TextPart) and not part.synthetic]


def hidden_text(entry: MessageWithParts) -> str:
    (text,) = [part.text for part in entry.parts if isinstance(part, TextPart) and part.synthetic]
    return text


async def read_notices(at: Stage) -> list[MessageWithParts]:
    return find_notices(await at.messages())


async def is_idle(runtime: Runtime, session_id: SessionId) -> bool:
    return await runtime.status(session_id) == Idle()


def build_gates(*names: str) -> dict[str, Gate]:
    return {name: Gate(name) for name in names}


ASK_QUESTION = call(
    "question", questions=[{"question": "Which?", "header": "Which", "options": [{"label": "a"}]}]
)


@asynccontextmanager
async def open_delegation_project(
    tmp_path: Path, scenes: RequestScript, *, files: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[Stage]:
    root = tmp_path / "project"
    create_repository(root, files or {})
    config.setdefault("delegation", DelegationConfig(tools="both"))
    serve = config.pop("serve", True)
    coding = Config(data_dir=tmp_path / "data", **config)
    model = RequestScriptModel(scenes)
    async with open_stage(tmp_path / "data", model, coding=coding, directory=root, serve=serve) as at:
        yield at


def launch_agent(tool: str, agent: str = "worker", prompt: str = "look", **more: Any) -> ScriptLine:
    """Call a tool that launches an agent."""
    name = "subagent_type" if tool == "task" else "agent"
    return call(tool, description=more.pop("description", "Job"), prompt=prompt, **{name: agent}, **more)


def requests_of(at: Stage, first: str) -> list[ChatRequest]:
    return [request for request in at.model.requests if request.messages[0] == UserTurn(first)]


def tool_names(request: ChatRequest) -> set[str]:
    return {tool.name for tool in request.tools}
