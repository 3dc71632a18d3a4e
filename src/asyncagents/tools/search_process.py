"""Searches of files, each in a process of its own: it ends with its deadline, its memory or its call."""

import sys
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.process import Processes

# An answer has at most a hundred lines of 2,000 characters, each of up to six in JSON, and their paths.
_ANSWER = 8_000_000
_PACKAGE = str(Path(__file__).resolve().parent.parent)
# The package without its front door: the search needs a few modules, not the whole runtime.
_START = (
    "import sys, types; package = types.ModuleType('asyncagents'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['asyncagents'] = package; from asyncagents.tools.search_main import main; main()"
)


class SearchAnswer(Protocol):
    @property
    def error(self) -> str: ...


A = TypeVar("A", bound=SearchAnswer)


class SearchOrder(Struct, frozen=True):
    """One search, and what to advise if it takes too long."""

    job: Struct
    """A `Job` of `search_main`."""
    seconds: float
    advice: str


async def run_search(processes: Processes, order: SearchOrder, answer: type[A]) -> A:
    """Raise `ToolError` if the search takes too long or cannot be done. Few of one project run at once."""
    async with processes.searches:
        ended = await processes.for_own_programs().run(
            _command(order.job), cwd=Path("/"), timeout=order.seconds, cap=_ANSWER
        )
    if ended.timed_out:
        raise ToolError(
            f"The search took longer than {order.seconds:g} seconds and was ended: {order.advice}."
        )
    try:
        found = msgspec.json.decode(ended.output.strip().rpartition("\n")[2], type=answer)
    except msgspec.DecodeError as error:
        raise ToolError(
            f"The search ended with exit code {ended.exit} and no answer: {order.advice}."
        ) from error
    if found.error:
        raise ToolError(found.error)
    return found


def _command(job: Struct) -> tuple[str, ...]:
    """In isolated mode nothing is imported from the project, whatever it holds."""
    return (sys.executable, "-I", "-c", _START, _PACKAGE, msgspec.json.encode(job).hex())
