"""The one door to processes: what an agent starts ends with it, with all that it started itself."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.process_hunt import Hunt
from asyncagents.tools.process_output import Output

MARKER = "ASYNCAGENTS_PROCESS"
CAP = 30_000
CHUNK = 64 * 1024
# Once all are dead the pipe ends at once; only a process of another user could hold it longer.
LAST_WORDS = 5.0
# A namespace of its own for processes, all else as it is.
NAMESPACE = ("--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--")

OnOutput: TypeAlias = Callable[[str], None]

_count = count()


class Ended(Struct, frozen=True, kw_only=True):
    exit: int
    """As a shell says it: 128 and the signal's number for one that was killed."""
    timed_out: bool
    output: str
    """All of it, or its head and tail with a note between them that names the file with the whole."""
    truncated: bool
    saved: str | None = None


class Processes:
    """Starts programs with this environment, which holds no key, and keeps long output in this folder."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path, namespace: bool = True) -> None:
        self._environment = environment
        self._folder = folder
        self._prefix: tuple[str, ...] | None = None if namespace else ()

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        timeout: float,
        on_output: OnOutput | None = None,
        cap: int = CAP,
    ) -> Ended:
        """Run it to its end, or end it. However this returns or raises, nothing that it started is left."""
        if self._prefix is None:
            self._prefix = await self._find_namespace()
        hunt = Hunt(f"{MARKER}={os.getpid()}.{asyncio.get_running_loop().time():.9f}.{next(_count)}")
        with closing(Output(self._folder, cap)) as output:
            async with _pipe(hunt) as (reader, write):
                process = await self._start((*self._prefix, *command), cwd, write, hunt)
                timed_out = await _watched(process, timeout, hunt, _drain(reader, output, on_output))
            code = process.returncode or 0
            return Ended(
                exit=128 - code if code < 0 else code,
                timed_out=timed_out,
                output=output.text(),
                truncated=output.truncated,
                saved=output.path,
            )

    async def _start(
        self, argv: tuple[str, ...], cwd: Path, write: int, hunt: Hunt
    ) -> asyncio.subprocess.Process:
        name, _, value = hunt.marker.partition("=")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=cwd,
                env={**self._environment, name: value},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(_refused(error, cwd)) from error
        except BaseException:
            await hunt.end(None)
            raise
        finally:
            os.close(write)
        hunt.leader = process.pid
        return process

    async def _find_namespace(self) -> tuple[str, ...]:
        """How to start in a namespace, or nothing where that cannot be had; it is tried, not believed."""
        bwrap = shutil.which("bwrap", path=self._environment.get("PATH", os.defpath))
        if bwrap is None:
            return ()
        prefix = (bwrap, *NAMESPACE)
        trial = Processes(self._environment, folder=self._folder, namespace=False)
        try:
            ended = await trial.run((*prefix, "true"), cwd=Path("/"), timeout=10)
        except ToolError:
            return ()
        return () if ended.exit else prefix


@asynccontextmanager
async def _pipe(hunt: Hunt) -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """A pipe of our own: asyncio's would make the end of a process wait for all that hold it."""
    read, write = os.pipe()
    hunt.pipe = f"pipe:[{os.fstat(read).st_ino}]"
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0)
    )
    try:
        yield reader, write
    finally:
        transport.close()


async def _drain(reader: asyncio.StreamReader, output: Output, on_output: OnOutput | None) -> None:
    data = b"?"
    while data:
        data = await reader.read(CHUNK)
        text = output.feed(data, last=not data)
        if text and on_output is not None:
            on_output(text)


async def _watched(
    process: asyncio.subprocess.Process, timeout: float, hunt: Hunt, drain: Coroutine[None, None, None]
) -> bool:
    """Whether its time ran out; it and all it started are gone afterwards, and what they said is read."""
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(drain)
            timed_out = await _ended(process, timeout, hunt)
            await asyncio.wait({reading}, timeout=LAST_WORDS)
            reading.cancel()
            return timed_out
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _ended(process: asyncio.subprocess.Process, timeout: float, hunt: Hunt) -> bool:
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
        return False
    except TimeoutError:
        return True
    finally:
        await hunt.end(process)


def _refused(error: OSError | ValueError, cwd: Path) -> str:
    if not isinstance(error, OSError):
        return "The command has a character that no program can be given, such as NUL: leave it out."
    if error.errno == errno.E2BIG:
        return "The command is too long to be started: write it to a file and run that."
    if not os.path.isdir(cwd):
        return f"There is no directory {cwd}: name one that exists."
    return f"The command could not be started: {error.strerror}."
