"""The doctor's checks of tools, plugins and MCP servers."""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from asyncagents.cli.doctor.import_child import ImportFinding, ImportRequest
from asyncagents.cli.doctor.report import Check
from asyncagents.config.env import system_environment
from asyncagents.config.load import LoadedConfig
from asyncagents.config.trust import project_root
from asyncagents.plugins.find import PluginFinder, PluginSource, ScopedFile, project_files
from asyncagents.tools.mcp.client import NOT_INSTALLED, ServerSpec
from asyncagents.tools.mcp.servers import configured_servers

IMPORT_SECONDS = 10.0
"""Timeout of one import."""
MAX_IMPORTS = 4
LEFT_OUT = "it is ignored; all others are used"
TRUST_HINT = "`asyncagents trust` shows what the project asks for, and trusts it"
T = TypeVar("T")


async def check_extensions(directory: Path, loaded: LoadedConfig, data: Path, *, online: bool) -> list[Check]:
    """Import the tools and plugins in use, each in a child process; `online`: connect to MCP servers."""
    environment = system_environment()
    found = PluginFinder(environment).find(directory, loaded.config, trusted=loaded.trusted)
    servers = configured_servers(environment, loaded.config, project_root(environment, directory))
    return [
        *([] if loaded.trusted else _check_untrusted(directory, "tools")),
        *await _check_tools(directory, found.tools),
        *([] if loaded.trusted else _check_untrusted(directory, "plugins")),
        *await _check_plugins(directory, found.plugins),
        *await _check_servers(servers, data / "tool-output", online=online),
    ]


def _check_untrusted(directory: Path, kind: str) -> Iterator[Check]:
    files = project_files(system_environment(), directory, kind)
    if files:
        names = ", ".join(map(str, files))
        yield Check("warn", kind, f"not loaded: the project is not trusted: {names}", TRUST_HINT)


async def _check_tools(directory: Path, files: Sequence[ScopedFile]) -> list[Check]:
    async def look(file: ScopedFile) -> ImportFinding:
        return await _import_in_child(ImportRequest(directory=str(directory), tools=str(file.path)))

    found = await _map_bounded(look, files)
    checks = [
        Check("warn", "tools", f"{file.path} {why}", LEFT_OUT)
        for file, each in zip(files, found, strict=True)
        for why in each.why
    ]
    names = [name for each in found for name in each.names]
    return [Check("ok", "tools", ", ".join(names)), *checks] if names else checks


async def _check_plugins(directory: Path, sources: Sequence[PluginSource]) -> list[Check]:
    async def look(source: PluginSource) -> ImportFinding:
        file = str(source.file) if source.file else None
        return await _import_in_child(
            ImportRequest(
                directory=str(directory),
                name=source.name,
                file=file,
                module=source.module,
                error=source.error,
            )
        )

    found = list(zip(sources, await _map_bounded(look, sources), strict=True))
    checks = [
        Check("warn", "plugins", f"{source.name} ({source.origin}) {why}", LEFT_OUT)
        for source, each in found
        for why in each.why
    ]
    names = [source.name for source, each in found if not each.why]
    return [Check("ok", "plugins", f"can be imported: {', '.join(names)}"), *checks] if names else checks


async def _map_bounded(
    look: Callable[[T], Awaitable[ImportFinding]], things: Sequence[T]
) -> list[ImportFinding]:
    """Run `look` for each thing, at most `MAX_IMPORTS` at once; results in order."""
    places = asyncio.Semaphore(MAX_IMPORTS)

    async def one(thing: T) -> ImportFinding:
        async with places:
            return await look(thing)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(thing)) for thing in things]
    return [task.result() for task in tasks]


async def _import_in_child(request: ImportRequest) -> ImportFinding:
    """Import in a child process; kill it and its process group after `IMPORT_SECONDS`."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "asyncagents.cli.doctor.import_child"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(IMPORT_SECONDS):
            output, _ = await child.communicate(msgspec.json.encode(request))
    except TimeoutError:
        return ImportFinding(why=(f"cannot be imported: timed out after {IMPORT_SECONDS:g} s",))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
    try:
        return msgspec.json.decode(output, type=ImportFinding)
    except msgspec.DecodeError:
        return ImportFinding(why=(f"cannot be imported: it exited the process with code {child.returncode}",))


async def _check_servers(servers: Sequence[ServerSpec], output: Path, *, online: bool) -> list[Check]:
    checks = [_check_server(server) for server in servers]
    usable = [
        server
        for server, check in zip(servers, checks, strict=True)
        if check.level == "ok" and server.config.enabled
    ]
    return [*checks, *await _check_connections(usable, output)] if online and usable else checks


def _check_server(server: ServerSpec) -> Check:
    if not server.config.enabled:
        return Check("ok", "mcp", f"{server.name}: disabled")
    if find_spec("mcp") is None:
        return Check("warn", "mcp", f"{server.name}: {NOT_INSTALLED}")
    why = _address_problem(server) if server.config.type == "remote" else _command_problem(server)
    if why is not None:
        return Check("warn", "mcp", f"{server.name}: {why}", 'fix it under "mcp" in the configuration')
    how = "by HTTP" if server.config.type == "remote" else "by stdio"
    return Check("ok", "mcp", f"{server.name}: enabled, {how}")


def _command_problem(server: ServerSpec) -> str | None:
    if not server.config.command:
        return "it has no command"
    program = server.config.command[0]
    path = server.folder / program if os.sep in program else program
    if shutil.which(path, path=server.variables.get("PATH")) is not None:
        return None
    where = "" if os.sep in program else " on PATH"
    return f"its command {program!r} is not found{where}, or may not be run"


def _address_problem(server: ServerSpec) -> str | None:
    """Return what is wrong with the URL, without quoting it: it may hold a key."""
    try:
        url = urlsplit(server.config.url or "")
        known = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        known = False
    return None if known else "its url is malformed: expected http:// or https:// and a host"


async def _check_connections(servers: Sequence[ServerSpec], output: Path) -> list[Check]:
    from asyncagents.cli.project.mcp import query_servers  # half a second to import

    rows = await query_servers(servers, output)
    return [
        Check("ok", "mcp online", f"{row.name}: connected, {len(row.tools)} tools")
        if row.connected
        else Check("fail", "mcp online", f"{row.name}: {row.why}")
        for row in rows
    ]
