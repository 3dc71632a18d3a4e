"""Files that the configuration names as code: plugins with their folders, and servers of tools."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from asyncagents.config.config import Config, McpConfig
from asyncagents.domain.guarded import KnownPlace
from asyncagents.tools.named_server import IMPORTED, find_server_code

_PLUGIN = "the configuration names it as a plugin, or a plugin imports it"
_SERVER = "the configuration starts it as a server of tools, or has that import it"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")


def code_places(config: Config, root: Path, home: Path) -> tuple[KnownPlace, ...]:
    """List the files and folders; of a folder that has the whole project in it, files of the same kind."""
    found: dict[KnownPlace, None] = {}
    for name in config.plugin:
        found |= dict.fromkeys(_plugin(name, root, home))
    for server in config.mcp.values():
        if server.type == "local":
            found |= dict.fromkeys(_server(server, root, home))
    return tuple(found)


def _plugin(name: str, root: Path, home: Path) -> Iterator[KnownPlace]:
    path = name.removeprefix("file://")
    if os.path.isabs(path):
        yield from _code(Path(path), _PLUGIN, (root, home))
    elif _MODULE.fullmatch(name):
        package = name.partition(":")[0].partition(".")[0]
        for folder in IMPORTED:
            yield KnownPlace(path=str(root / folder / package), why=_PLUGIN)
            yield KnownPlace(path=str(root / folder / f"{package}.py"), why=_PLUGIN)


def _server(server: McpConfig, root: Path, home: Path) -> Iterator[KnownPlace]:
    """List what its command would run, and the folders that its variables import from.

    What lies beside such a file stays free, and so do folders in its command: most of them hold data.
    """
    code = find_server_code(server, root, home)
    yield from (KnownPlace(path=path, why=_SERVER) for path in code.files)
    for folder in code.folders:
        if not _has_any(Path(folder), (root, home)):
            yield KnownPlace(path=folder, why=_SERVER)


def _code(path: Path, why: str, tops: tuple[Path, Path]) -> Iterator[KnownPlace]:
    """The file, and the folder that it is in: what lies beside a program is imported before anything else."""
    real = Path(os.path.realpath(path))
    if _has_any(real, tops):
        return
    yield KnownPlace(path=str(real), why=why)
    if real.is_dir():
        return
    if not _has_any(real.parent, tops):
        yield KnownPlace(path=str(real.parent), why=why)
    elif real.suffix:
        yield KnownPlace(path=str(real.parent), why=why, ending=real.suffix)


def _has_any(folder: Path, tops: tuple[Path, Path]) -> bool:
    """Whether the whole project or the whole home lies in it."""
    return any(
        folder == top or folder in top.parents for top in (Path(os.path.realpath(each)) for each in tops)
    )
