"""Stages whose model has a window, so that sessions are compacted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents import Tool
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.event import Event
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.testing.inside import inside
from tests.support.model import WindowModel
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE


class CompactionStage:
    def __init__(self, runtime: Runtime, session_id: SessionId, model: WindowModel) -> None:
        self.runtime = runtime
        self.session_id = session_id
        self.model = model
        self.events: list[Event] = []

    async def prompt(self, text: str) -> MessageWithParts:
        async with asyncio.timeout(PATIENCE):
            return await self.runtime.prompt(self.session_id, text)

    async def compact(self, focus: str = "") -> MessageWithParts:
        async with asyncio.timeout(PATIENCE):
            return await self.runtime.compact(self.session_id, focus)

    async def control(self) -> Control:
        return await inside(self.runtime).store.control(self.session_id)


@asynccontextmanager
async def open_compaction_stage(
    data: Path, model: WindowModel, *tools: Tool[Any]
) -> AsyncIterator[CompactionStage]:
    async with open_runtime(data, model=model, tools=tools, policy=_allow) as runtime:
        session = await runtime.create_session(directory=data)
        yield CompactionStage(runtime, session.id, model)


def _allow(ask: object, context: object) -> Any:
    return "allow"


def request_text(request: ChatRequest) -> str:
    return "\n".join(told.text for told in request.messages if isinstance(told, UserTurn))
