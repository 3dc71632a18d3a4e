"""A fork of a conversation of 2,000 messages: the CPU that it takes."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from asyncagents import ScriptedModel, open_runtime
from asyncagents.domain.conversation.copy import ConversationCopy, PositionedMessage
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import (
    AssistantMessage,
    MessagePath,
    MessageTime,
    ModelRef,
    UserMessage,
)
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCompleted,
    ToolPart,
)
from asyncagents.domain.conversation.session import NewSession, Session, Tokens
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from benchmarks.machine import measure as machine
from benchmarks.report import Figure, table

MESSAGES = 2_000
TRIES = 3
NOW = 1_700_000_000_000


async def measure(directory: Path) -> list[Figure]:
    async with open_runtime(directory, model=ScriptedModel({}), serve=False) as runtime:
        session = await fill(runtime)
        took = []
        for _ in range(TRIES):
            begun = time.process_time()
            await runtime.conversations.fork(session.id)
            took.append(time.process_time() - begun)
    return [
        Figure(
            f"fork of {MESSAGES:,} messages with {4 * MESSAGES:,} parts: CPU", min(took) * 1e3, "ms", "≤ 150"
        )
    ]


async def fill(runtime: Runtime, messages: int = MESSAGES) -> Session:
    """A session in which a question was answered in many steps, each with a call."""
    ids = runtime.conversations._session_factory.ids
    first = await runtime.create_session(directory="/project")
    info = Session(**{name: getattr(first, name) for name in first.__struct_fields__} | {"id": ids.session()})
    copy = ConversationCopy(messages=tuple(_placed(ids, info.id, messages)))
    pool = (await runtime._store.control(first.id)).pool
    return await runtime._store.conversation.copy_session(NewSession(info=info, pool=pool, key=None), copy)


def _placed(ids: Ids, session_id: SessionId, messages: int) -> list[PositionedMessage]:
    model = ModelRef(provider_id="scripted", model_id="scripted")
    asked = UserMessage(
        id=ids.message(), session_id=session_id, time=MessageTime(created=NOW), agent="build", model=model
    )
    question = TextPart(id=ids.part(), session_id=session_id, message_id=asked.id, text="go")
    found = [PositionedMessage(MessageWithParts(info=asked, parts=(question,)), 1)]
    for place in range(2, messages + 1):
        info = AssistantMessage(
            id=ids.message(), session_id=session_id, parent_id=asked.id,
            time=MessageTime(created=NOW, completed=NOW + 1), model_id="scripted", provider_id="scripted",
            mode="build", agent="build", path=MessagePath(cwd="/project", root="/project"), cost=0.0,
            tokens=Tokens.zero(), finish="tool-calls",
        )  # fmt: skip
        found.append(
            PositionedMessage(
                MessageWithParts(info=info, parts=_parts(ids, session_id, info.id, place)), place
            )
        )
    return found


def _parts(ids: Ids, session_id: SessionId, message_id: MessageId, number: int) -> tuple[Part, ...]:
    at: dict[str, Any] = {"session_id": session_id, "message_id": message_id}
    time = PartTime(start=NOW, end=NOW + 1)
    state = ToolCompleted(
        input={"path": f"src/file{number}.py"}, output="seen " * 200, title="look", metadata={}, time=time
    )
    return (
        StepStartPart(id=ids.part(), **at),
        TextPart(id=ids.part(), text="some words before the call, as models use to say", time=time, **at),
        ToolPart(id=ids.part(), call_id=f"call{number}", tool="look", state=state, **at),
        StepFinishPart(id=ids.part(), reason="tool-calls", cost=0.0, tokens=Tokens.zero(), **at),
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        print(table(machine() + asyncio.run(measure(Path(directory)))), file=sys.stdout)


if __name__ == "__main__":
    main()
