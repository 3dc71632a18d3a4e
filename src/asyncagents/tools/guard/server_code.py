"""Find files that the command of a local MCP server would run: words, scripts, modules, variables."""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from asyncagents.config.config import McpConfig

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MODULE_OPTIONS = ("-m", "--module")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
# A shell script is split into words roughly: a word too many only guards a file too many.
_WORD_SEPARATORS = re.compile(r"""[\s;|&()<>'"`]+""")
_SCRIPT = re.compile(r"[^\s/]+\.(py|pyz|js|mjs|cjs|jsx|ts|mts|cts|tsx|sh|bash|rb|pl|php|lua|jar|exs?)")
# Suffixes that interpreters add to a file name.
_ENDINGS = (".js", ".mjs", ".cjs", ".json", ".ts", ".py", ".sh")
_ENTRY_FILES = ("__main__.py", "index.js", "index.mjs", "index.ts", "mod.ts")
# Folders of a project from which modules are usually imported.
IMPORT_FOLDERS = ("", "src", "lib")
_FOLDER_VARIABLES = frozenset(
    {"CLASSPATH", "LD_LIBRARY_PATH", "NODE_PATH", "PERL5LIB", "PYTHONPATH", "RUBYLIB"}
)
_FILE_VARIABLES = frozenset(
    {"BASH_ENV", "ENV", "LD_PRELOAD", "NODE_OPTIONS", "PERL5OPT", "PYTHONSTARTUP", "RUBYOPT"}
)


class ServerCode(Struct, frozen=True):
    files: tuple[str, ...]
    folders: tuple[str, ...]
    """Folders from which modules are imported."""


def find_server_code(server: McpConfig, root: Path, home: Path) -> ServerCode:
    """Find the files that the words of the command name, and the folders of its import variables."""
    start = root if server.cwd is None else root / expand_home(server.cwd, home)
    words = [word for option in server.command for word in _split_option(option)]
    assigned = [found for word in words if (found := _ASSIGNMENT.fullmatch(word))]
    variables = {**server.environment, **{found[1]: found[2] for found in assigned}}
    folders = [Path(path) for path in _variable_folders(variables, start, home)]
    words += [word for name in _FILE_VARIABLES & variables.keys() for word in _split_option(variables[name])]
    named = [start / expand_home(word, home) for word in words]
    inner = [path for path in named if _is_folder(path) and not _contains_project(path, root)]
    files = [
        *(path for word in words for path in _run_files(word, start, home)),
        *(str(folder / name) for folder in inner for name in _ENTRY_FILES),
        *(path for word in words if _is_script(word) for path in _script_files(word, start, inner)),
        *(path for word in _run_modules(words) for path in _module_files(word, [start, *inner, *folders])),
    ]
    return ServerCode(tuple(dict.fromkeys(map(os.path.realpath, files))), tuple(map(str, folders)))


def expand_home(path: str, home: Path) -> str:
    return str(home) + path[1:] if path == "~" or path.startswith("~/") else path


def _split_option(word: str) -> Iterator[str]:
    """Yield the word itself, the words of a script, and the values of `--option=value`."""
    pieces = dict.fromkeys((word, *filter(None, _WORD_SEPARATORS.split(word))))
    for piece in pieces:
        yield piece
        if "=" in piece:
            yield piece.partition("=")[2]


def _variable_folders(variables: dict[str, str], start: Path, home: Path) -> Iterator[str]:
    for name in sorted(_FOLDER_VARIABLES & variables.keys()):
        for word in filter(None, variables[name].split(os.pathsep)):
            yield os.path.realpath(start / expand_home(word, home))


def _run_files(word: str, start: Path, home: Path) -> Iterator[str]:
    """Yield the files that a word may name; one that does not exist yet counts if the word has a slash."""
    path = start / expand_home(word, home)
    if not word or word.startswith("-") or "://" in word or _is_folder(path):
        return
    yield from (full for ending in _ENDINGS if _exists(Path(full := f"{path}{ending}")))
    if "/" in word or _exists(path):
        yield str(path)


def _script_files(word: str, start: Path, inner: list[Path]) -> Iterator[str]:
    """Yield paths of a script named without a slash: in the start folder, or in a folder of the command."""
    found = [str(folder / word) for folder in inner if _exists(folder / word)]
    yield from found or (str(folder / word) for folder in (start, *inner))


def _run_modules(words: list[str]) -> Iterator[str]:
    """Yield the modules that follow `-m` or `--module`."""
    for option, word in pairwise(words):
        if option in _MODULE_OPTIONS and _MODULE.fullmatch(word):
            yield word


def _module_files(module: str, folders: list[Path]) -> Iterator[str]:
    """Yield the files of a module and of the packages that contain it, which are imported first."""
    names = module.split(".")
    for top in (folder / each for folder in folders for each in IMPORT_FOLDERS):
        for depth in range(1, len(names)):
            yield str(top.joinpath(*names[:depth], "__init__.py"))
        path = top.joinpath(*names)
        yield from (f"{path}.py", str(path / "__init__.py"), str(path / "__main__.py"))


def _is_script(word: str) -> bool:
    return _SCRIPT.fullmatch(word) is not None


def _contains_project(folder: Path, root: Path) -> bool:
    """Return whether a folder contains the whole project."""
    real, top = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    return real == top or real in top.parents


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
