"""The client of one MCP server: connects when needed, and again after a loss; a task holds the connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from msgspec import Struct

from asyncagents.config.config import McpConfig
from asyncagents.config.file.redact import secrets_in
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.connection import NEEDS_HEADER, UNAUTHORISED, Line, Lost, Offer, Tail
from asyncagents.tools.process.pipes import Piped, open_piped
from asyncagents.tools.process.processes import Processes

START_SECONDS = 60.0
"""How long a server may take to start: some download themselves first."""
CLOSE_SECONDS = 5.0
LONGEST_PAUSE = 60.0
MISSING = "the MCP client is not installed: run `pip install 'asyncagents[mcp]'`"

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Wanted(Struct, frozen=True, kw_only=True):
    """A server as configured for one directory."""

    name: str
    config: McpConfig
    folder: Path
    variables: Mapping[str, str]

    def __repr__(self) -> str:
        """Show the name alone: the other fields may hold keys."""
        return f"ServerSpec({self.name!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        config = self.config
        given = (*config.environment.values(), *config.headers.values(), *secrets_in(config.command))
        return (*given, *(value.split()[-1] for value in given if value.split()), *_secrets_of(config.url))


class Link:
    def __init__(self, wanted: Wanted, *, group: asyncio.TaskGroup, output: Path) -> None:
        self.wanted = wanted
        self.tail = Tail(wanted.secrets)
        self.offers: tuple[Offer, ...] = ()
        """The last known tools, also while disconnected."""
        self.version = 0
        self.begun: float | None = None
        self.why = ""
        """Why the server is not connected; empty if it is, or was never tried."""
        self.tried = asyncio.Event()
        self._group = group
        self._output = output
        self._task: asyncio.Task[None] | None = None
        self._line: Line | None = None
        self._settled = asyncio.Event()
        self._signal = asyncio.Event()
        self._changed = self._over = self._stopping = False
        self._said = ""
        self._status = 0
        self._failures = 0
        self._next = 0.0
        self._busy = 0

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def _patience(self) -> float:
        return self.wanted.config.timeout_seconds or START_SECONDS

    @property
    def connected(self) -> bool:
        return self._line is not None

    def begin(self) -> None:
        """Start the connection task, unless it runs or waits after a failure."""
        now = asyncio.get_running_loop().time()
        if self._stopping or now < self._next or (self._task is not None and not self._task.done()):
            return
        if self.begun is None:
            self.begun = now
        self._settled.clear()
        self._signal.clear()
        self._changed = self._over = False
        self._said, self._status = "", 0
        self._task = self._group.create_task(self._own())

    def stop(self) -> None:
        """Stop once open requests have ended; cancel a connection that is still starting."""
        self._stopping = True
        self.why = "It is not wanted any more, or was configured anew: call it again."
        self._signal.set()
        if self._task is not None and not self._settled.is_set():
            self._task.cancel()

    def trouble(self) -> str:
        """Return the text for model and people: which server, why, and what to do."""
        wait = self._next - asyncio.get_running_loop().time()
        again = f" It is tried again in {wait:.0f} s." if wait >= 1 else ""
        said = "".join(f"\n  {line}" for line in self.tail.lines[-5:])
        told = f"\nIt last said:{said}" if said else ""
        return f'MCP server "{self.name}" cannot be used: {self.why}{again} Go on without it.{told}'

    async def call(self, offer: Offer, arguments: dict[str, Any], context: ToolContext) -> Completed | Failed:
        """Call a tool; if the connection is lost, call it again only if that does no harm."""
        harmless = offer.effect != "once"
        try:
            return await self._try(
                lambda line: line.call(offer.name, arguments, context.report), again=harmless
            )
        except Lost as lost:
            if harmless or lost.never_ran:
                return Failed(self.trouble())
            return Failed(
                f'MCP server "{self.name}" was lost while this call ran, so whether it took effect is '
                f"unknown. Check before you do it again. {self.why}",
                metadata={"inDoubt": True},
            )

    async def ask(self, question: Callable[[Line], Awaitable[T]]) -> T:
        """Make a request without side effects, and repeat it once after a loss. Raises `ToolError`."""
        limit = asyncio.timeout(self._patience)
        try:
            async with limit:
                return await self._try(question, again=True)
        except Lost as lost:
            raise ToolError(self.trouble()) from lost
        except TimeoutError as error:
            raise ToolError(
                f'MCP server "{self.name}" did not answer within {self._patience:g} s.'
            ) from error

    async def _try(self, question: Callable[[Line], Awaitable[T]], *, again: bool) -> T:
        try:
            return await self._once(question)
        except Lost as lost:
            if not (again or lost.never_ran):
                raise
        return await self._once(question)

    async def _once(self, question: Callable[[Line], Awaitable[T]]) -> T:
        line = await self._up()
        self._busy += 1
        try:
            answer = await question(line)
        except Lost:
            await self._gone(line)
            raise
        except ToolError:
            self._failures = 0
            raise
        finally:
            self._busy -= 1
            self._signal.set()
        self._failures = 0
        return answer

    async def _up(self) -> Line:
        if self._line is None:
            if self._task is not None and self._settled.is_set():
                await asyncio.wait({self._task})
            self.begin()
            if not self._stopping:
                await self._settled.wait()
        if self._line is None:
            raise ToolError(self.trouble())
        return self._line

    async def _gone(self, line: Line) -> None:
        """Drop a lost connection, and wait until its task has cleaned up and recorded why."""
        if self._line is line:
            self._line, self._over = None, True
            self._signal.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _own(self) -> None:
        """Run one connection from start to end; no failure of the server leaves this task."""
        limit = asyncio.timeout(None)
        try:
            async with limit, self._opened(limit) as line:
                await self._learn(line)
                limit.reschedule(None)
                await self._hold(line)
                limit.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)
            self._fail(self._said or "The connection was closed.")
        except TimeoutError:
            self._fail(self._said or f"It did not answer within {self._patience:g} s.")
        except Exception as error:  # noqa: BLE001  the edge of a server
            self._fail(self._told(_first(error)))
        finally:
            self._line = None
            self._settled.set()
            self.tried.set()

    @asynccontextmanager
    async def _opened(self, limit: asyncio.Timeout) -> AsyncIterator[Line]:
        if find_spec("mcp") is None:
            raise ModuleNotFoundError(MISSING)
        async with AsyncExitStack() as stack:
            piped = await self._piped(stack)
            # Slow to import: done in a thread while the server starts.
            sdk = await asyncio.to_thread(_sdk)
            limit.reschedule(asyncio.get_running_loop().time() + self._patience)
            wires = sdk.Wires(tail=self.tail, ended=self._end, changed=self._change, refused=self._refused)
            session = sdk.open_session(self.name, self.wanted.config, wires, piped)
            yield await stack.enter_async_context(session)

    async def _piped(self, stack: AsyncExitStack) -> Piped | None:
        if self.wanted.config.type == "remote":
            return None
        processes = Processes(self.wanted.variables, folder=self._output, root=self.wanted.folder)
        started = open_piped(processes, self.wanted.config.command, cwd=self.wanted.folder)
        return await stack.enter_async_context(started)

    async def _hold(self, line: Line) -> None:
        """Serve requests until the connection is over, or stopped with no open request."""
        self._line, self.why, self._status = line, "", 0
        self._settled.set()
        self.tried.set()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(_followed(line, self._change))
            while not self._over and (not self._stopping or self._busy):
                await self._signal.wait()
                self._signal.clear()
                if self._changed:
                    self._changed = False
                    await self._learn_anew(line)
            self._line = None
            following.cancel()

    async def _learn_anew(self, line: Line) -> None:
        """Load the tools again; keep the known ones if the server does not list them."""
        try:
            async with asyncio.timeout(self._patience):
                await self._learn(line)
        except Lost:
            self._over = True
        except (ToolError, TimeoutError) as error:
            _log.warning("action=list_tools mcp_server=%s: %s", self.name, error)

    async def _learn(self, line: Line) -> None:
        offers = await line.offers()
        if offers != self.offers:
            self.offers = offers
            self.version += 1

    def _fail(self, why: str) -> None:
        if self._stopping:
            return
        self.why = whole(self.tail.veiled(why))
        self._failures += 1
        pause = 0.0 if self._failures == 1 else min(LONGEST_PAUSE, 2.0 ** (self._failures - 2))
        self._next = asyncio.get_running_loop().time() + pause
        _log.warning("action=connect mcp_server=%s: %s", self.name, self.why)

    def _told(self, error: BaseException) -> str:
        if isinstance(error, ImportError):
            return f"{MISSING}."
        if self._said:
            return self._said
        if self._status in UNAUTHORISED:
            return NEEDS_HEADER.format(self._status)
        if _sdk().is_unreachable(error):
            return "Nobody answers at its address: check its url, or start it."
        if self._status:
            return f"It answered with HTTP status {self._status}."
        return str(_sdk().described(error))

    def _end(self, why: str) -> None:
        self._said, self._over = why, True
        self._line = None
        self._signal.set()

    def _change(self) -> None:
        self._changed = True
        self._signal.set()

    def _refused(self, status: int) -> None:
        self._status = status


def _secrets_of(url: str | None) -> list[str]:
    """Return the password and the query values of a URL, each as written and decoded."""
    before, _, query = (url or "").partition("?")
    values = [pair.partition("=")[2] for pair in query.split("&")]
    login = before.partition("://")[2].partition("/")[0].rpartition("@")[0]
    written = [query, *values, login.partition(":")[2]]
    return [*written, *map(unquote, written)]


async def _followed(line: Line, changed: Callable[[], None]) -> None:
    """Follow changes of the tools; a failure is only logged, since the next start loads all tools."""
    try:
        await line.follow(changed)
    except Exception as error:  # noqa: BLE001  the edge of a server
        _log.debug("action=follow_changes: an MCP server sends no changes of its tools", exc_info=error)


def _sdk() -> Any:
    return import_module("asyncagents.tools.mcp.sdk_session")


def _first(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
