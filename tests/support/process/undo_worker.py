"""A process whose agent changes many files, that undoes it, and is killed meanwhile: `… data project`."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from asyncagents import Completed, Tool, ToolContext, open_runtime
from asyncagents.config.config import Config
from asyncagents.domain.event import SessionUpdated
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.scripted import ScriptedModel, call, say
from tests.support.tool import NoArguments

MANY = 200
SCRIPT = {"go": [[call("work")], [say("Done.")]], "hello": [[say("Hi.")]]}


def change(root: Path) -> None:
    for number in range(MANY):
        (root / f"{number}.txt").write_text(f"changed {number}\n")
        (root / "new" / f"{number}").parent.mkdir(exist_ok=True)
        (root / "new" / f"{number}").write_text("new\n")


async def work(args: NoArguments, context: ToolContext) -> Completed:
    await asyncio.to_thread(change, Path(context.directory))
    return Completed("changed")


def open_undo_runtime(data: Path) -> AbstractAsyncContextManager[Runtime]:
    tools = [Tool("work", NoArguments, work)]
    return open_runtime(data, model=ScriptedModel(SCRIPT), tools=tools, coding=Config(data_dir=data))


async def main(data: Path, root: Path) -> None:
    async with open_undo_runtime(data) as here:
        session = await here.create_session(directory=root, key="one")
        await here.prompt(session.id, "go")
        (asked, *_) = await here.messages(session.id)
        async with here.events(session.id) as events, asyncio.TaskGroup() as group:
            group.create_task(here.reverts.revert(session.id, asked.info.id))
            async for event in events:
                if isinstance(event, SessionUpdated) and event.info.revert is not None:
                    sys.stdout.write("marked\n")
                    sys.stdout.flush()
                    break


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
