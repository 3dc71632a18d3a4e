"""Writes docs/library.md, the reference of the library, from the docstrings of its public names."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

import asyncagents
from asyncagents.engine.event.task_stream import Board
from asyncagents.engine.runtime.actions import SessionActions
from asyncagents.engine.runtime.answers import SubmittedPrompt
from asyncagents.engine.runtime.approvals import Approvals
from asyncagents.engine.runtime.async_tools import AsyncTools
from asyncagents.engine.runtime.tasks import Tasks
from asyncagents.engine.webhook.delivery import Deliveries

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "library.md"
BEGINNING = Path(__file__).with_suffix(".md")
NOTE = "<!-- Written by `make reference` from docstrings and scripts/library_reference.md: edit those. -->\n"
WIDTH = 100

GROUPS: dict[str, tuple[str, ...]] = {
    "Runtime": ("open_runtime", "Runtime", "export_to", "import_from"),
    "Sessions and messages": (
        *("Session", "MessageWithParts", "Status", "Idle", "Busy", "Retry", "WaitingAsync", "Todo", "Why"),
        *("SessionId", "MessageId", "CallId"),
    ),
    "Prompts": (
        *("TextInput", "FileInput", "AgentInput", "SubtaskInput", "Attachment", "JsonFormat"),
        "CommandInfo",
    ),
    "Tools": (
        *("tool", "async_tool", "approval", "wait_tool", "Tool", "ToolContext"),
        *("Completed", "Failed", "ResultFile", "Pending", "WithFacts", "Ask"),
    ),
    "Calls, permissions and questions": (
        *("Call", "WaitingCall", "PendingToolCall", "ToolResult", "Delivery"),
        *("Once", "Always", "Reject", "Answers", "Question", "Option", "Rule", "Approval"),
    ),
    "Tasks": ("BackgroundTask", "TaskQuery", "TaskPage", "TaskGroup", "TaskStats", "BoardSnapshot"),
    "Models": ("Model", "ScriptedModel", "say", "think", "call", "pause", "end", "fail"),
    "Plugins": ("Plugin", "PluginContext", "PluginHooks"),
    "Configuration": (
        *("Config", "AgentConfig", "CommandConfig", "DelegationConfig", "AsksConfig", "AsyncToolsConfig"),
        *("WebhooksConfig", "SandboxConfig", "TelemetryConfig", "Secret"),
    ),
    "Events": (
        *("Event", "SessionUpdated", "SessionDeleted", "SessionStatus", "SessionIdle", "SessionError"),
        *("MessageUpdated", "PartUpdated", "PartDelta", "PromptAnswered", "CommandExecuted", "TodoUpdated"),
        *("PermissionAsked", "PermissionReplied", "QuestionAsked", "QuestionReplied", "QuestionRejected"),
        *("TaskCreated", "TaskUpdated", "TaskCompleted", "TaskFailed", "TaskCancelled", "TaskCleared"),
        "AsyncToolExpiring",
    ),
    "Errors": (
        *("AsyncAgentsError", "NotFound", "InvalidInput", "Unauthorized", "ResultRefused", "Conflict"),
        *("AlreadySettled", "SessionBusy", "ToolError", "Closed", "Unavailable", "ConfigError"),
    ),
}
PARTS = {
    "runtime.tasks": Tasks,
    "runtime.async_tools": AsyncTools,
    "runtime.approvals": Approvals,
    "runtime.board": Board,
    "runtime.deliveries": Deliveries,
    "SubmittedPrompt": SubmittedPrompt,
}
"""What a program reaches through a runtime, under the name of its heading."""

UNLISTED = {
    "Board": {"close", "set_task_group"},
    "Runtime": {"census", "close", "replay", "trouble"},
    "SessionActions": {"publish_idle", "publish_refusal"},
}
"""Methods that only asyncagents itself calls."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Place:
    """The statement that defines a name, and the docstring of that statement."""

    module: str
    node: Definition
    text: str


@dataclass(frozen=True)
class Field:
    """One field of a Struct, or one option of a function."""

    name: str
    type: str
    default: str
    text: str


def describe(name: str) -> Place:
    """Find the definition of a public name of the library."""
    for node in _parse("asyncagents").body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return find_definition(str(node.module), alias.name)
    raise LookupError(f"asyncagents does not import {name}")


def find_definition(module: str, name: str) -> Place:
    body = _parse(module).body
    found = [at for at, node in enumerate(body) if name in _defined_names(node)]
    node = body[found[-1]]  # the last one: overloads stand before the function itself
    assert isinstance(node, Definition)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return Place(module, node, _text_after(body, found[-1]))
    return Place(module, node, ast.get_docstring(node) or "")


@cache
def _parse(module: str) -> ast.Module:
    path = import_module(module).__file__
    assert path is not None
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def _defined_names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.AnnAssign(target=ast.Name(id)):
            return {id}
        case ast.Assign(targets=[ast.Name(id)]):
            return {id}
        case _:
            return set()


def _text_after(body: list[ast.stmt], at: int) -> str:
    """Return the string below a statement, which describes it."""
    match body[at + 1 : at + 2]:
        case [ast.Expr(ast.Constant(str(text)))]:
            return inspect.cleandoc(text)
        case _:
            return ""


def lineage(place: Place) -> list[Place]:
    """Return a class and those of its bases that are ours, the base first."""
    assert isinstance(place.node, ast.ClassDef)
    module = import_module(place.module)
    bases = [getattr(module, base.id, object) for base in place.node.bases if isinstance(base, ast.Name)]
    ours = [each for each in bases if each.__module__.startswith("asyncagents") and each.__name__ != "Shape"]
    return [*(above for each in ours for above in lineage(_place_of(each))), place]


def fields(place: Place) -> list[Field]:
    """List the fields of a Struct, the inherited ones first."""
    return [field for each in lineage(place) for field in _own_fields(each)]


def _own_fields(place: Place) -> Iterator[Field]:
    assert isinstance(place.node, ast.ClassDef)
    for at, node in enumerate(place.node.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            shown = unparse(node.annotation).strip('"')
            if not shown.startswith("ClassVar"):
                yield Field(node.target.id, shown, _default(node.value), _text_after(place.node.body, at))


def _default(value: ast.expr | None) -> str:
    """Return the default of a field as text; "" if the field is required."""
    if value is None:
        return ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field")):
        return unparse(value)
    given = {word.arg: unparse(word.value) for word in value.keywords}
    return given.get("default") or (f"{given['default_factory']}()" if "default_factory" in given else "")


def methods(place: Place) -> list[FunctionNode]:
    """List the public methods and properties of a class, the inherited ones first."""
    found: dict[str, FunctionNode] = {}
    for each in lineage(place):
        assert isinstance(each.node, ast.ClassDef)
        unlisted = UNLISTED.get(each.node.name, set())
        for node in each.node.body:
            if isinstance(node, FunctionNode) and not node.name.startswith("_") and node.name not in unlisted:
                found[node.name] = node
    return list(found.values())


def parameters(node: FunctionNode) -> list[str]:
    """Return the parameters of a function as text, without `self`."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    shown = [_parameter(arg, value) for arg, value in zip(plain, defaults, strict=True)]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    if args.vararg:
        shown.append(f"*{_parameter(args.vararg, None)}")
    elif args.kwonlyargs:
        shown.append("*")
    shown += [_parameter(arg, value) for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        shown.append(f"**{_parameter(args.kwarg, None)}")
    return [each for each in shown if each not in ("self", "cls")]


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    named = arg.arg if arg.annotation is None else f"{arg.arg}: {unparse(arg.annotation)}"
    return named if default is None else f"{named} = {unparse(default)}"


def unparse(node: ast.expr) -> str:
    """Return an expression as the formatter writes it: with double quotes."""
    return ast.unparse(node).replace("'", '"')


def signature(node: FunctionNode, name: str, *, returns: str = "") -> str:
    """Return a signature in one line."""
    after = returns or (unparse(node.returns) if node.returns else "")
    awaited = isinstance(node, ast.AsyncFunctionDef) and not after.startswith("Async")
    before = "async " if awaited else ""
    return f"{before}{name}({', '.join(parameters(node))})" + (f" -> {after}" if after else "")


def signature_block(node: FunctionNode, name: str, *, returns: str = "", before: str = "") -> str:
    """Return a signature in a block, one line for each parameter if it is long."""
    line = before + signature(node, name, returns=returns).removeprefix("async " if before else "")
    if len(line) > WIDTH:
        head, tail = line.partition("(")[0], line.rpartition(")")[2]
        line = f"{head}(\n" + "".join(f"    {each},\n" for each in parameters(node)) + f"){tail}"
    return f"```python excerpt\n{line}\n```"


def class_block(name: str, bases: str, found: list[Field]) -> str:
    """Return the fields of a class in a block, what they mean as comments."""
    lines = [f"class {name}({bases}):" if bases else f"class {name}:"]
    for each in found:
        field = f"    {each.name}: {each.type}" + (f" = {each.default}" if each.default else "")
        text = prose(each.text).replace("\n\n", " ")
        if text and len(field) + len(text) + 4 <= WIDTH:
            lines.append(f"{field}  # {text}")
        else:
            lines += [*(f"    # {line}" for line in textwrap.wrap(text, WIDTH - 6)), field]
    return "```python excerpt\n" + "\n".join(lines if found else [lines[0][:-1]]) + "\n```"


def prose(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _options(place: Place, nodes: list[FunctionNode]) -> list[str]:
    """Describe the options that `**options: Unpack[…]` stands for, once each."""
    module = import_module(place.module)
    parts: list[str] = []
    for name in dict.fromkeys(name for node in nodes if (name := _options_name(node))):
        options = find_definition(getattr(module, name).__module__, name)
        parts += ["`**options` are:", class_block(name, "TypedDict, total=False", fields(options))]
    return parts


def _options_name(node: FunctionNode) -> str:
    given = node.args.kwarg.annotation if node.args.kwarg else None
    found = re.fullmatch(r"Unpack\[(\w+)\]", unparse(given)) if given else None
    return found[1] if found else ""


def show_function(place: Place, name: str) -> list[str]:
    assert isinstance(place.node, FunctionNode)
    if any("contextmanager" in unparse(each) for each in place.node.decorator_list):
        block = signature_block(place.node, name, returns="Runtime", before="async with ")
    else:
        block = signature_block(place.node, name)
    return [block, prose(place.text), *_options(place, [place.node])]


def show_alias(place: Place, name: str) -> list[str]:
    value = place.node.value if isinstance(place.node, ast.Assign | ast.AnnAssign) else None
    assert value is not None
    match value:
        case ast.Call(func=ast.Name("TypedDict"), args=[_, ast.Dict(keys, values)]):
            pairs = [(unparse(key), unparse(kind)) for key, kind in zip(keys, values, strict=True) if key]
            inside = "".join(f"    {key}: {kind},\n" for key, kind in pairs)
            return [prose(place.text), f"```python excerpt\n{{\n{inside}}}\n```"]
        case ast.BinOp():
            members = ", ".join(f"`{each.strip()}`" for each in unparse(value).split("|"))
            return [prose(place.text), f"One of {members}."]
        case _:
            return [prose(place.text), f"```python excerpt\n{name} = {unparse(value)}\n```"]


def show_class(place: Place, name: str) -> list[str]:
    node = place.node
    assert isinstance(node, ast.ClassDef)
    is_struct = _is_struct(place)
    bases = "Struct" if is_struct else ", ".join(unparse(base) for base in node.bases)
    parts = [class_block(name, bases, fields(place) if is_struct else [])]
    made = _constructor(node, name)
    if made or name in PARTS or name == "Runtime":
        parts = made
    parts.append(prose(place.text))
    if kind := event_type(node):
        parts.append(f"Its type in JSON is `{kind}`.")
    found = methods(place) + (methods(_place_of(SessionActions)) if name == "Runtime" else [])
    return [*parts, *(["\n".join(_bullet(each) for each in found)] if found else []), *_options(place, found)]


def event_type(node: ast.ClassDef) -> str:
    """Return the `type` of an event; "" for other classes."""
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name("type"), value=ast.Constant(str(value))):
                return value
            case _:
                pass
    return ""


def _is_struct(place: Place) -> bool:
    kind = getattr(import_module(place.module), getattr(place.node, "name", ""))
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _constructor(node: ast.ClassDef, name: str) -> list[str]:
    made = [each for each in node.body if isinstance(each, FunctionNode) and each.name == "__init__"]
    if not made or name in PARTS or name == "Runtime" or name in GROUPS["Errors"]:
        return []
    text = ast.get_docstring(made[0])
    return [signature_block(made[0], name, returns=name), *([prose(text)] if text else [])]


def _bullet(node: FunctionNode) -> str:
    text = prose(ast.get_docstring(node) or "").replace("\n\n", " ")
    is_property = any(unparse(each) == "property" for each in node.decorator_list)
    returns = unparse(node.returns) if node.returns else ""
    line = f"{node.name}: {returns}" if is_property else signature(node, node.name)
    return f"- `{line}`" + (f" — {text}" if text else "")


def _place_of(kind: type) -> Place:
    return find_definition(kind.__module__, kind.__name__)


def show(name: str) -> list[str]:
    """Describe one public name: a heading and what follows."""
    place = describe(name)
    if isinstance(place.node, FunctionNode):
        return [f"### `{name}`", *show_function(place, name)]
    if isinstance(place.node, ast.ClassDef):
        return [f"### `{name}`", *show_class(place, name)]
    return [f"### `{name}`", *show_alias(place, name)]


def _contents() -> str:
    rows = ["| section | names |", "|---|---|"]
    for title, names in GROUPS.items():
        anchor = title.lower().replace(",", "").replace(" ", "-")
        rows.append(f"| [{title}](#{anchor}) | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(rows)


def reference() -> str:
    """Return the text of docs/library.md."""
    parts = [NOTE + BEGINNING.read_text(encoding="utf-8").strip(), "## Contents", _contents()]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += show(name)
            if name == "Runtime":
                parts += [
                    part
                    for heading, kind in PARTS.items()
                    for part in (f"### `{heading}`", *show_class(_place_of(kind), heading))
                ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    unknown = set(asyncagents.__all__) ^ {name for names in GROUPS.values() for name in names}
    if unknown:
        print(f"problem: these names are in asyncagents.__all__ or in GROUPS alone: {sorted(unknown)}")
        return 1
    PAGE.write_text(reference(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
