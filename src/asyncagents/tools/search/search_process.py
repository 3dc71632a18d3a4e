"""Run searches of files, each in a separate process that ends by its timeout, memory limit or call."""

import sys
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.process.processes import Processes

# A result has at most a hundred lines of 2,000 characters, each up to six bytes in JSON, and their paths.
_MOST_ANSWER_BYTES = 8_000_000
_PACKAGE = str(Path(__file__).resolve().parents[2])
# The package without its `__init__`: the search needs a few modules, not the whole runtime.
_START_CODE = (
    "import sys, types; package = types.ModuleType('asyncagents'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['asyncagents'] = package; from asyncagents.tools.search.search_worker import main; main()"
)


class SearchAnswer(Protocol):
    @property
    def error(self) -> str: ...


A = TypeVar("A", bound=SearchAnswer)


class SearchRequest(Struct, frozen=True):
    """One search, its timeout, and the advice if it takes too long."""

    search: Struct
    """An `AnySearch` of `search_worker`."""
    seconds: float
    advice: str


async def run_search(processes: Processes, request: SearchRequest, answer: type[A]) -> A:
    """Run a search; few of one project run at once. Raises `ToolError` if it fails or takes too long."""
    async with processes.searches:
        result = await processes.for_own_programs().run(
            _command(request.search), cwd=Path("/"), timeout=request.seconds, cap=_MOST_ANSWER_BYTES
        )
    if result.timed_out:
        raise ToolError(
            f"The search took longer than {request.seconds:g} seconds and was ended: {request.advice}."
        )
    try:
        found = msgspec.json.decode(result.output.strip().rpartition("\n")[2], type=answer)
    except msgspec.DecodeError as error:
        raise ToolError(
            f"The search ended with exit code {result.exit_code} and no answer: {request.advice}."
        ) from error
    if found.error:
        raise ToolError(found.error)
    return found


def _command(job: Struct) -> tuple[str, ...]:
    """Return the command; in isolated mode nothing is imported from the project."""
    return (sys.executable, "-I", "-c", _START_CODE, _PACKAGE, msgspec.json.encode(job).hex())
