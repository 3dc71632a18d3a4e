"""Imports modules and files of plugins and tools, each once; a failure raises `ConfigError`."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, get_args

from asyncagents.config.file.check import suggestion
from asyncagents.domain.text import error_text
from asyncagents.engine.tool import AnyTool, Tool
from asyncagents.engine.workplace.hooks import HookName
from asyncagents.errors import ConfigError
from asyncagents.plugins.find import PluginSource, is_untrusted
from asyncagents.plugins.guarded_call import CallTimeout, GuardedRunner, RaisedError, ReturnedValue

IMPORT_SECONDS = 30.0
DEFAULT_FUNCTION = "plugin"
HOOK_NAMES: tuple[str, ...] = get_args(HookName)


class PluginImporter:
    """Imports files and modules; a changed file takes effect when the process restarts."""

    def __init__(self, runner: GuardedRunner) -> None:
        self._runner = runner
        self._files: dict[Path, ModuleType | str] = {}

    async def import_file(self, path: Path) -> ModuleType:
        """Import a file once. Raises the same `ConfigError` each time if it fails."""
        if path not in self._files:
            try:
                self._files[path] = await self._import_guarded(_import_file, path)
            except ConfigError as error:
                self._files[path] = str(error)
        module = self._files[path]
        if isinstance(module, str):
            raise ConfigError(module)
        return module

    async def import_module(self, name: str, strangers: Sequence[Path]) -> ModuleType:
        return await self._import_guarded(_import_module, name, strangers)

    async def _import_guarded(self, work: Callable[..., ModuleType], *args: Any) -> ModuleType:
        match await self._runner.run(work, *args, seconds=IMPORT_SECONDS):
            case ReturnedValue(ModuleType() as module):
                return module
            case RaisedError(ConfigError() as error):
                raise error
            case RaisedError(error):
                raise ConfigError(f"cannot be imported: {error_text(error)}") from error
            case CallTimeout() | ReturnedValue():
                raise ConfigError(f"cannot be imported: it did not end within {IMPORT_SECONDS:g} s")

    async def import_plugin(self, source: PluginSource, strangers: Sequence[Path]) -> Callable[..., Any]:
        """Import the plugin function of a source. Raises `ConfigError`."""
        if source.error is not None:
            raise ConfigError(source.error)
        name, function = DEFAULT_FUNCTION, None
        if source.file is not None:
            function = getattr(await self.import_file(source.file), name, None)
        elif source.module is not None:
            module, _, name = source.module.partition(":")
            name = name or DEFAULT_FUNCTION
            function = getattr(await self.import_module(module, strangers), name, None)
        if not callable(function):
            raise ConfigError(f"has no function {name!r}: write `async def {name}(context)`")
        found: Callable[..., Any] = function
        return found


def tools_in(module: ModuleType) -> list[AnyTool]:
    """List the tools of a module under public names, in order."""
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    return list(dict.fromkeys(value for value in values if isinstance(value, Tool)))


def read_hooks(returned: object) -> tuple[dict[HookName, Callable[..., Any]], tuple[AnyTool, ...]]:
    """Check what a plugin returned: its hooks and tools. Raises `ConfigError`."""
    if not isinstance(returned, Mapping):
        raise ConfigError(f"returned {type(returned).__name__}: a plugin returns its hooks, by name")
    hooks: dict[HookName, Callable[..., Any]] = {}
    for name, hook in returned.items():
        if name not in HOOK_NAMES:
            near = suggestion(str(name), HOOK_NAMES)
            instead = f"did you mean {near!r}?" if near else f"there are {', '.join(HOOK_NAMES)}"
            raise ConfigError(f"has a hook {str(name)[:80]!r}: {instead}")
        if name != "tool" and not callable(hook):
            raise ConfigError(f"has a hook {name} that is not a function")
        if name != "tool":
            hooks[name] = hook
    return hooks, _read_tools(returned.get("tool", ()))


def _read_tools(offered: object) -> tuple[AnyTool, ...]:
    if isinstance(offered, Mapping):
        tools = [tool.with_name(str(name)) for name, tool in offered.items() if isinstance(tool, Tool)]
        count = len(offered)
    else:
        listed = list(offered) if isinstance(offered, Sequence) else [offered]
        tools, count = [tool for tool in listed if isinstance(tool, Tool)], len(listed)
    if len(tools) != count:
        raise ConfigError("has tools that are not tools: make them with @tool, by name or as a list")
    return tuple(tools)


class _SourceLoader(SourceFileLoader):
    """Compiles the source file; reads and writes no bytecode files."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _import_file(path: Path) -> ModuleType:
    """Import a file under a unique name, registered in `sys.modules`, as dataclasses need it."""
    name = f"asyncagents_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}_{path.stem}"
    loader = _SourceLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str, strangers: Sequence[Path]) -> ModuleType:
    """Import a module after checking where its package lies, as importing runs its code."""
    package = name.partition(".")[0]
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ConfigError(f"cannot be imported: there is no module {package!r} where this Python looks")
    if any(is_untrusted(place, strangers) for place in _locations(spec)):
        raise ConfigError("lies in a project that is not trusted: run `asyncagents trust` there first")
    return importlib.import_module(name)


def _locations(spec: ModuleSpec) -> list[str]:
    places = list(spec.submodule_search_locations or ())
    return [*places, spec.origin] if spec.has_location and spec.origin else places
