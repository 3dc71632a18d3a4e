"""Finds plugins and tool files in packages, the configuration and folders, without importing them."""

import logging
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.markdown.agents import distrust_warning
from asyncagents.config.paths import config_folder, worktree_folders
from asyncagents.config.trust import is_trusted, project_root
from asyncagents.config.untrusted_settings import relative_path
from asyncagents.plugins.loaded_plugin import Scope

GROUP = "asyncagents.plugins"
MOST_FILES = 200
MOST_NAMES = 5
NODE_FOLDERS = ("tool", "tools", "plugin", "plugins")
NODE_ENDINGS = (".ts", ".js", ".mts", ".mjs", ".cts", ".cjs")
_log = logging.getLogger(__name__)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")
NOT_PYTHON = (
    "is neither a Python module, as package.module:function, nor the path of a .py file; "
    "plugins that are written for Node do not run here"
)


class PluginSource(Struct, frozen=True, kw_only=True):
    """A plugin by its file or module; `error`: why it cannot be loaded."""

    name: str
    origin: str
    scope: Scope
    file: Path | None = None
    module: str | None = None
    options: dict[str, Any] = {}
    error: str | None = None


class ScopedFile(Struct, frozen=True):
    path: Path
    scope: Scope


class FoundPlugins(Struct, frozen=True, kw_only=True):
    directory: str
    trusted: bool
    plugins: tuple[PluginSource, ...]
    tools: tuple[ScopedFile, ...]
    warnings: tuple[str, ...] = ()


class PluginFinder:
    """Finds plugins and tools of a directory; ignores code that lies in an untrusted project."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._packages: dict[tuple[str, ...], tuple[PluginSource, ...]] = {}

    def find(self, directory: Path, config: Config, *, trusted: bool) -> FoundPlugins:
        root = project_root(self._environment, directory)
        files, strange = self._files(directory, "plugins", trusted=trusted)
        tools, strange_tools = self._files(directory, "tools", trusted=trusted)
        warnings = [
            *distrust_warning([file.path for file in strange], "plugin", root),
            *distrust_warning([file.path for file in strange_tools], "tool", root),
            *_node_warning(node_files(self._environment, directory), root),
        ]
        plugins = (
            *self._installed_plugins(directory),
            *(_configured_plugin(name, config, root) for name in config.plugin),
            *(
                PluginSource(name=file.path.stem, origin=str(file.path), scope=file.scope, file=file.path)
                for file in files
            ),
        )
        return FoundPlugins(
            directory=str(directory),
            trusted=trusted,
            plugins=plugins,
            tools=tuple(tools),
            warnings=tuple(warnings),
        )

    def untrusted_roots(self, directory: Path) -> tuple[Path, ...]:
        """Return the untrusted project roots among the directory's and that of the working directory."""
        home = Path(os.path.realpath(self._environment.home))
        places = (directory, self._environment.cwd)
        roots = {project_root(self._environment, place): place for place in places}
        return tuple(
            root
            for root, place in roots.items()
            # The home folder and its parents hold the user's own files.
            if root not in (home, *home.parents) and not is_trusted(self._environment, place)
        )

    def _installed_plugins(self, directory: Path) -> tuple[PluginSource, ...]:
        """Return entry points by package and name; a package of an untrusted project cannot hide another."""
        strangers = self.untrusted_roots(directory)
        path = tuple(entry for entry in sys.path if not is_untrusted(entry, strangers))
        if path not in self._packages:
            self._packages[path] = tuple(_entry_points(path))
        return self._packages[path]

    def _files(
        self, directory: Path, kind: str, *, trusted: bool
    ) -> tuple[list[ScopedFile], list[ScopedFile]]:
        """Return the files that count, nearest first, and those that need the user's trust."""
        theirs = [ScopedFile(path, "project") for path in project_files(self._environment, directory, kind)]
        own = _user_folders(self._environment, kind)
        ours = [ScopedFile(path, "user") for folder in own for path in _python_files(folder)]
        return ([*theirs, *ours], []) if trusted else (ours, theirs)


def project_files(environment: Environment, directory: Path, kind: str) -> list[Path]:
    """List a project's plugin or tool files, from the directory upwards, without the user's own folders."""
    own = _user_folders(environment, kind)
    around = reversed(worktree_folders(environment.folder(str(directory))))
    folders = [folder / ".asyncagents" / kind for folder in around]
    return [path for folder in folders if folder not in own for path in _python_files(folder)]


def node_files(environment: Environment, directory: Path) -> list[Path]:
    """Find the tools and plugins of a project that were written for OpenCode."""
    folders = [folder / ".opencode" for folder in worktree_folders(environment.folder(str(directory)))]
    return [path for folder in folders for name in NODE_FOLDERS for path in _node_scripts(folder / name)]


def _node_scripts(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(NODE_ENDINGS) and not name.endswith(".d.ts")]


def _node_warning(paths: Sequence[Path], root: Path) -> list[str]:
    """Build one warning for all files, or none."""
    if not paths:
        return []
    names = [relative_path(str(path), str(root)) for path in paths]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return [
        f"{', '.join(names[:MOST_NAMES])}{more}: written for Node, which is not run here; write tools and "
        "plugins in Python, in .asyncagents/tools and .asyncagents/plugins"
    ]


def _user_folders(environment: Environment, kind: str) -> list[Path]:
    return [config_folder(environment, "asyncagents") / kind, environment.home / ".asyncagents" / kind]


def is_untrusted(place: str, strangers: Sequence[Path]) -> bool:
    """Tell whether a path lies in one of the roots and not in a package folder of this Python."""
    real = os.path.realpath(place or os.curdir)
    if any(_inside(real, home) for home in _package_folders()):
        return False
    return any(_inside(real, str(root)) for root in strangers)


@cache
def _package_folders() -> list[str]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_path(name) for name in names] + site.getsitepackages()
    places.append(site.getusersitepackages())
    return [os.path.realpath(place) for place in places]


def _inside(place: str, folder: str) -> bool:
    return os.path.commonpath([place, folder]) == folder


def _entry_points(path: Sequence[str]) -> Iterable[PluginSource]:
    packages = list(metadata.distributions(path=list(path)))
    # Reading the names of all packages is slow; without a plugin among them it is not needed.
    if not any(_names_group(package) for package in packages):
        return
    found: dict[str, list[metadata.EntryPoint]] = {}
    for package in packages:
        try:
            name = re.sub(r"[-_.]+", "-", package.name or "").lower()
            points = [point for point in package.entry_points if point.group == GROUP]
        except Exception:  # noqa: BLE001  a broken package has no plugins
            _log.warning(
                "folder=%s action=find_plugins the metadata of a package cannot be read",
                package.locate_file(""),
            )
            continue
        found.setdefault(name, points)
    for name, points in sorted(found.items()):
        for point in sorted(points, key=lambda each: each.name):
            module = point.value.split("[")[0].replace(" ", "")
            yield PluginSource(name=point.name, origin=f"package {name}", scope="user", module=module)


def _names_group(package: metadata.Distribution) -> bool:
    """Tell whether a package may have plugins; one that cannot be read may, and is reported later."""
    try:
        return GROUP in (package.read_text("entry_points.txt") or "")
    except (OSError, ValueError):
        return True


def _configured_plugin(name: str, config: Config, root: Path) -> PluginSource:
    path = name.removeprefix("file://")
    options = config.plugin_options.get(name, {})
    if path.endswith(".py") and os.path.isabs(path):
        scope: Scope = "project" if _inside(os.path.realpath(path), str(root)) else "user"
        file = Path(path)
        return PluginSource(name=file.stem, origin=path, scope=scope, file=file, options=options)
    if _MODULE.fullmatch(name) and not name.endswith(".py"):
        return PluginSource(name=name, origin="configuration", scope="user", module=name, options=options)
    return PluginSource(name=name, origin="configuration", scope="user", error=NOT_PYTHON)


def _python_files(folder: Path) -> list[Path]:
    """List the Python files of a folder by name, without those that begin with `_` or `.`."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    files = [name for name in names if name.endswith(".py") and not name.startswith(("_", "."))]
    return [folder / name for name in files[:MOST_FILES] if (folder / name).is_file()]
