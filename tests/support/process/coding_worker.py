"""A process that works as a coding agent on the sessions of a data directory, by a script without state.

`python -m tests.support.process.coding_worker DATA STEP FILE`: before the model's step of this number it
stands still and makes the file, so that it can be killed exactly there; with -1 it never does.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from asyncagents import ScriptedModel, call, open_runtime, say
from asyncagents.config.config import Config
from asyncagents.llm.model import ChatRequest, ModelEvent, ModelTurn
from asyncagents.llm.scripted import Script

RULES: dict[str, Any] = {"edit": "ask", "bash": "ask"}
TEST = "python -B -m unittest -q"

SHAPES = "def area(width, height):\n    return 0\n"
NAMES = "def shout(name):\n    return name\n"
TESTS = """import unittest

from names import shout
from shapes import area


class Tests(unittest.TestCase):
    def test_area(self):
        self.assertEqual(area(2, 3), 6)

    def test_shout(self):
        self.assertEqual(shout("ada"), "ADA!")
"""
FILES = {
    "shapes.py": SHAPES,
    "names.py": NAMES,
    "test_all.py": TESTS,
}
DONE = {
    "shapes.py": "def area(width, height):\n    return width * height\n",
    "names.py": 'def shout(name):\n    return name.upper() + "!"\n',
    "test_all.py": TESTS,
    "CHANGES.md": "Areas and names.\n",
}


def edit_call(path: str, old: str, new: str) -> Any:
    return call("edit", filePath=path, oldString=old, newString=new)


PLAN = [
    [call("read", filePath="shapes.py"), call("read", filePath="names.py")],
    [call("bash", command="git status --short")],
    [say("Both functions are wrong, and nothing says what changed.")],
]
BUILD = [
    [call("todowrite", todos=[{"content": "mend both", "status": "in_progress"}])],
    [edit_call("shapes.py", "return 0", "return width + height")],
    [edit_call("names.py", "return name", 'return name.upper() + "!"')],
    [call("write", filePath="CHANGES.md", content=DONE["CHANGES.md"])],
    [call("bash", command=TEST, description="the first run")],
    [edit_call("shapes.py", "width + height", "width * height")],
    [call("bash", command=TEST, description="the second run")],
    [call("todowrite", todos=[{"content": "mend both", "status": "completed"}])],
    [say("All tests pass.")],
]
CHILD = [[call("write", filePath="child.txt", content="from below")], [say("Written.")]]
SCRIPT: Script = {"plan": PLAN, "build": BUILD, "child": CHILD}
STEPS = len(PLAN) + len(BUILD)


class StandingModel:
    """A model that stands still before one step."""

    def __init__(self, step: int, mark: Path) -> None:
        self._model = ScriptedModel(SCRIPT, remember=False)
        self._step = step
        self._mark = mark

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        if sum(isinstance(told, ModelTurn) for told in request.messages) == self._step:
            self._mark.touch()
            await asyncio.Event().wait()
        async for event in self._model.stream(request):
            yield event


async def serve(data: Path, model: StandingModel) -> None:
    """Until it is killed, or whoever started it is gone."""
    async with open_runtime(data, model=model, coding=Config(data_dir=data, permission=RULES)):
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    _, where, number, file = sys.argv
    asyncio.run(serve(Path(where), StandingModel(int(number), Path(file))))
