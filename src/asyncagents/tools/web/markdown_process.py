"""Convert a page to markdown in a separate process, with a timeout.

Python's HTML parser is extremely slow for some pages, and would block the event loop.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from asyncagents.errors import ToolError
from asyncagents.tools.process.pipes import PipedProcess, open_piped_process
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.web.markdown import Markdown
from asyncagents.tools.web.markdown_worker import PageToRead

TIMEOUT_SECONDS = 15.0
_PACKAGE = str(Path(__file__).resolve().parents[2])
# The package without its `__init__`: the worker needs a few modules, not the whole runtime. In isolated mode
# nothing is imported from the project.
_START_CODE = (
    "import sys, types; package = types.ModuleType('asyncagents'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['asyncagents'] = package; from asyncagents.tools.web.markdown_worker import main; main()"
)
_COMMAND = (sys.executable, "-I", "-c", _START_CODE, _PACKAGE)
_CHUNK = 64 * 1024
_MOST_CHARACTER_BYTES = 6
"""Bytes of one character in JSON, at most."""


async def read_as_markdown(
    processes: Processes, html: str, *, base: str, most: int, seconds: float = TIMEOUT_SECONDS
) -> Markdown:
    """Convert a page. Raises `ToolError` if that takes too long or too much memory."""
    page = msgspec.json.encode(PageToRead(html, base, most))
    try:
        async with (
            asyncio.timeout(seconds),
            open_piped_process(processes.for_own_programs(), _COMMAND, cwd=Path("/"), goodbye=0) as worker,
        ):
            answer = await _request_markdown(worker, page, most * _MOST_CHARACTER_BYTES + _CHUNK)
        return msgspec.json.decode(answer, type=Markdown)
    except (TimeoutError, OSError, msgspec.DecodeError) as error:
        raise ToolError(
            f"{base} is not read as markdown: its HTML takes too long or too much memory to parse. "
            'Fetch it with the format "html", or fetch another page.'
        ) from error


async def _request_markdown(worker: PipedProcess, page: bytes, most: int) -> bytes:
    await worker.writer.write(page)
    worker.writer.close()
    answer = bytearray()
    while len(answer) <= most and (piece := await worker.output.read(_CHUNK)):
        answer += piece
    return bytes(answer)
