"""Find files that the configuration names as code: plugins with their folders, and local MCP servers."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from asyncagents.config.config import Config, McpConfig
from asyncagents.domain.agent.guarded import KnownPlace
from asyncagents.tools.guard.server_code import IMPORT_FOLDERS, find_server_code

_PLUGIN = "the configuration names it as a plugin, or a plugin imports it"
_SERVER = "the configuration or a session starts it as a server of tools, or has that import it"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")


def find_code_places(config: Config, root: Path, home: Path) -> tuple[KnownPlace, ...]:
    """Return code files and folders; of a folder that contains the project, only files of that suffix."""
    found: dict[KnownPlace, None] = {}
    for name in config.plugin:
        found |= dict.fromkeys(_plugin_places(name, root, home))
    for server in config.mcp.values():
        if server.type == "local":
            found |= dict.fromkeys(_server_places(server, root, home))
    return tuple(found)


def _plugin_places(name: str, root: Path, home: Path) -> Iterator[KnownPlace]:
    path = name.removeprefix("file://")
    if os.path.isabs(path):
        yield from _code_places(Path(path), _PLUGIN, (root, home))
    elif _MODULE.fullmatch(name):
        package = name.partition(":")[0].partition(".")[0]
        for folder in IMPORT_FOLDERS:
            yield KnownPlace(path=str(root / folder / package), why=_PLUGIN)
            yield KnownPlace(path=str(root / folder / f"{package}.py"), why=_PLUGIN)


def _server_places(server: McpConfig, root: Path, home: Path) -> Iterator[KnownPlace]:
    """Yield the files that a server's command would run, and the folders that its variables import from.

    Files beside them, and folders named in the command, are not guarded: most of them hold data.
    """
    code = find_server_code(server, root, home)
    yield from (KnownPlace(path=path, why=_SERVER) for path in code.files)
    for folder in code.folders:
        if not _contains_any(Path(folder), (root, home)):
            yield KnownPlace(path=folder, why=_SERVER)


def _code_places(path: Path, why: str, tops: tuple[Path, Path]) -> Iterator[KnownPlace]:
    """Yield the file and its folder: modules beside a program are imported before any others."""
    real = Path(os.path.realpath(path))
    if _contains_any(real, tops):
        return
    yield KnownPlace(path=str(real), why=why)
    if real.is_dir():
        return
    if not _contains_any(real.parent, tops):
        yield KnownPlace(path=str(real.parent), why=why)
    elif real.suffix:
        yield KnownPlace(path=str(real.parent), why=why, ending=real.suffix)


def _contains_any(folder: Path, tops: tuple[Path, Path]) -> bool:
    """Return whether a folder contains the whole project or the whole home."""
    return any(
        folder == top or folder in top.parents for top in (Path(os.path.realpath(each)) for each in tops)
    )
