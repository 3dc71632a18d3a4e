"""Imports a file of tools or a plugin for the doctor, in a child process: the code may hang or exit."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents.config.conceal import conceal_environment
from asyncagents.config.env import system_environment
from asyncagents.errors import ConfigError
from asyncagents.plugins.find import PluginFinder, PluginSource
from asyncagents.plugins.guarded_call import GuardedRunner
from asyncagents.plugins.load import PluginImporter, tools_in
from asyncagents.plugins.tool.check import usable_tools


class ImportRequest(Struct, frozen=True, kw_only=True):
    """What to import: a file of tools, or a plugin."""

    directory: str
    tools: str | None = None
    name: str = ""
    file: str | None = None
    module: str | None = None
    error: str | None = None


class ImportFinding(Struct, frozen=True, kw_only=True):
    """The names of the tools found; `why`: what is wrong."""

    names: tuple[str, ...] = ()
    why: tuple[str, ...] = ()


async def import_extension(request: ImportRequest) -> ImportFinding:
    importer = PluginImporter(GuardedRunner())
    try:
        if request.tools is None:
            strangers = PluginFinder(system_environment()).untrusted_roots(Path(request.directory))
            await importer.import_plugin(_source(request), strangers)
            return ImportFinding()
        tools, odd = usable_tools(tools_in(await importer.import_file(Path(request.tools))))
    except ConfigError as error:
        return ImportFinding(why=(str(error),))
    if not (tools or odd):
        odd = ["has no tool: write a function and put @tool above it"]
    return ImportFinding(names=tuple(tool.name for tool in tools), why=tuple(odd))


def _source(request: ImportRequest) -> PluginSource:
    file = Path(request.file) if request.file else None
    return PluginSource(
        name=request.name, origin="", scope="user", file=file, module=request.module, error=request.error
    )


def main() -> None:
    """Write the finding to the original stdout; discard what the code prints, skip its exit handlers."""
    conceal_environment()
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ImportRequest)
    for number in range(3):
        os.dup2(nowhere, number)
    found = asyncio.run(import_extension(request))
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(msgspec.json.encode(found))
    os._exit(0)


if __name__ == "__main__":
    main()
