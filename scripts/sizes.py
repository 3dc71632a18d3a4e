"""Measures the source tree and refuses what grew too long or stands in the wrong room."""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "asyncagents"
# Packages whose `__init__.py` says what users may rely on. The client is one of its own: who only uses the
# library need not load it.
DOORS = {PACKAGE, f"{PACKAGE}.client"}
MAX_FILE = 400
MAX_FUNCTION = 40
SHOWN = 5

# What may be longer than the limit, each with its reason: "asyncagents.room.module" for a file,
# "asyncagents.room.module:Class.function" for a function.
ALLOWED_LONG: dict[str, str] = {}

# Who may import a library: the rooms (first name below the package).
IMPORT_HOMES: dict[str, set[str]] = {
    "aiohttp": {"client", "llm", "testing", "tools"},
    "anyio": {"tools", "mcp_server"},
    "apsw": {"store", "testing"},
    "asyncpg": {"store", "testing"},
    "click": {"cli"},
    "httptools": {"server"},
    "httpx2": {"tools"},
    "jsonschema_rs": {"engine"},
    "mcp": {"tools", "mcp_server"},
    "mcp_types": {"tools", "mcp_server"},
    "opentelemetry": {"telemetry"},
    "sqlite3": {"store", "testing"},
    "tree_sitter": {"tools"},
    "tree_sitter_bash": {"tools"},
    "uvicorn": {"server"},
    "uvloop": {"cli"},
    "yaml": {"config"},
    "yarl": {"tools"},
}

# Who may call a function.
CALL_HOMES: dict[str, set[str]] = {
    "asyncio.create_task": {"testing"},
    "asyncio.ensure_future": {"testing"},
    "print": {"cli"},
}

LAZY_ROOM = "cli"
LAZY_COMMENTS = ("# optional extra", "# start-up")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ImportNode = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Module:
    """One parsed source file."""

    name: str
    path: Path
    lines: list[str]
    tree: ast.Module

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def is_inner_init(self) -> bool:
        return self.path.name == "__init__.py" and self.name not in DOORS

    def at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.name}:{node.lineno}"


@dataclass(frozen=True)
class Function:
    """A function with its length in lines, decorators not counted."""

    name: str
    length: int


def read_modules(folder: Path) -> list[Module]:
    return [read_module(path, folder.parent) for path in sorted(folder.rglob("*.py"))]


def read_module(path: Path, source: Path) -> Module:
    parts = path.relative_to(source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name=name, path=path, lines=text.splitlines(), tree=ast.parse(text, str(path)))


def functions(module: Module) -> Iterator[Function]:
    yield from _functions_below(module.tree, f"{module.name}:")


def _functions_below(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, FunctionNode):
            yield Function(prefix + child.name, (child.end_lineno or child.lineno) - child.lineno + 1)
        if isinstance(child, FunctionNode | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from _functions_below(child, inner)


def imports(tree: ast.AST, *, at_import_time: bool = False) -> Iterator[ImportNode]:
    """Every import statement, or only those that run when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ImportNode):
            yield child
        elif not (at_import_time and isinstance(child, FunctionNode)):
            yield from imports(child, at_import_time=at_import_time)


def imported_names(node: ImportNode) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names]


def import_graph(modules: list[Module]) -> dict[str, list[str]]:
    known = {module.name for module in modules}
    return {module.name: sorted(set(_edges(module, known))) for module in modules}


def _edges(module: Module, known: set[str]) -> Iterator[str]:
    for node in imports(module.tree, at_import_time=True):
        for name in imported_names(node):
            target = name if name in known else name.rpartition(".")[0]
            if target in known:
                yield target


def import_cycles(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    """One cycle after another, each broken at one edge before the next is looked for."""
    graph = {name: list(targets) for name, targets in graph.items()}
    while cycle := _first_cycle(graph):
        yield cycle
        graph[cycle[0]].remove(cycle[1])


def _first_cycle(graph: dict[str, list[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib names the imported module before its importer; people read it the other way.
        return list(reversed(error.args[1]))
    return []


def check_lengths(module: Module) -> Iterator[str]:
    if len(module.lines) > MAX_FILE and module.name not in ALLOWED_LONG:
        yield f"{module.name}: {len(module.lines)} lines, the limit is {MAX_FILE}"
    for function in functions(module):
        if function.length > MAX_FUNCTION and function.name not in ALLOWED_LONG:
            yield f"{function.name}: {function.length} lines, the limit is {MAX_FUNCTION}"


def check_docstring(module: Module) -> Iterator[str]:
    if module.is_inner_init:
        if "".join(module.lines).strip():
            yield f"{module.name}: only the package's own __init__.py may hold code"
    elif not (ast.get_docstring(module.tree, clean=False) or "").partition("\n")[0].strip():
        yield f"{module.name}: opens without a one-line docstring"


def check_type_checking(module: Module) -> Iterator[str]:
    for node in type_checking_uses(module):
        yield f"{module.at(node)}: a TYPE_CHECKING import hides a cycle"


def type_checking_uses(module: Module) -> list[ast.If]:
    tests = (node for node in ast.walk(module.tree) if isinstance(node, ast.If))
    return [node for node in tests if ast.unparse(node.test).endswith("TYPE_CHECKING")]


def check_lazy_imports(module: Module) -> Iterator[str]:
    if module.room == LAZY_ROOM:
        return
    eager = set(imports(module.tree, at_import_time=True))
    for node in imports(module.tree):
        line = module.lines[node.lineno - 1]
        if node not in eager and not any(comment in line for comment in LAZY_COMMENTS):
            yield f"{module.at(node)}: an import inside a function needs one of {LAZY_COMMENTS} on its line"


def check_import_homes(module: Module) -> Iterator[str]:
    for node in imports(module.tree):
        for library, homes in IMPORT_HOMES.items():
            if module.room not in homes and any(_is_in(name, library) for name in imported_names(node)):
                yield f"{module.at(node)}: {library} may be imported only in {', '.join(sorted(homes))}"


def check_mocks(module: Module) -> Iterator[str]:
    for node in imports(module.tree):
        if any(_is_in(name, "unittest.mock") for name in imported_names(node)):
            yield f"{module.at(node)}: nothing is mocked; put a double at the provider, clock or process"


def check_call_homes(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            homes = CALL_HOMES.get(called)
            if homes is not None and module.room not in homes:
                yield f"{module.at(node)}: {called} may be called only in {', '.join(sorted(homes))}"


def _is_in(name: str, library: str) -> bool:
    return name == library or name.startswith(f"{library}.")


CHECKS: tuple[Callable[[Module], Iterator[str]], ...] = (
    check_lengths,
    check_docstring,
    check_type_checking,
    check_lazy_imports,
    check_import_homes,
    check_call_homes,
    check_mocks,
)


def report(modules: list[Module], cycles: list[list[str]]) -> None:
    found = [function for module in modules for function in functions(module)]
    lengths = [function.length for function in found] or [0]
    total = sum(len(module.lines) for module in modules)
    print(f"{len(modules)} files, {total} lines, {len(found)} functions, median {median(lengths):g} lines")
    _print_longest("functions", [(function.length, function.name) for function in found])
    _print_longest("files", [(len(module.lines), module.name) for module in modules])
    hidden = sum(len(type_checking_uses(module)) for module in modules)
    print(f"import cycles: {len(cycles)}, TYPE_CHECKING imports: {hidden}")


def _print_longest(what: str, sizes: list[tuple[int, str]]) -> None:
    print(f"longest {what}:")
    for length, name in sorted(sizes, key=lambda size: (-size[0], size[1]))[:SHOWN]:
        print(f"  {length:4}  {name}")


def main() -> int:
    modules = read_modules(ROOT / "src" / PACKAGE)
    cycles = list(import_cycles(import_graph(modules)))
    report(modules, cycles)
    problems = [f"import cycle: {' -> '.join(cycle)}" for cycle in cycles]
    problems += [problem for module in modules for check in CHECKS for problem in check(module)]
    problems += [problem for module in read_modules(ROOT / "tests") for problem in check_mocks(module)]
    for problem in problems:
        print(f"problem: {problem}")
    print(f"sizes: {len(problems)} problems" if problems else "sizes: all within limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
