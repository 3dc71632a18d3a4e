"""Whatever a model sends to a file tool, it gets a result or an error to act on."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents.domain.body import encode_body
from asyncagents.engine.tool import ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.search.list_tree import ListedTree, TreeListing, build_tree
from tests.support.workspace.file_tool import SECRET, ToolDesk

pytestmark = pytest.mark.slow

_NAMES = [
    "a",
    "dir",
    "link",
    "loop",
    "gone",
    "pipe",
    "bin",
    "..",
    ".",
    "",
    "~",
    "deep/er",
    "\0",
    "\ud800",
    "*",
]
_PATHS = st.one_of(
    st.lists(st.sampled_from(_NAMES), max_size=5).map("/".join),
    st.text(max_size=20),
    st.sampled_from(["/proc/self/environ", "/dev/zero", "/dev/stdin", "n" * 300, "x/" * 3000, "\udcff"]),
)
_TEXTS = st.one_of(
    st.text(max_size=30), st.sampled_from(["one", "one\n", "two", "\ud800", "", " ", "one\r\ntwo"])
)
_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.none())
)
_FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "read": {"filePath": _PATHS, "offset": st.integers(), "limit": st.integers()},
    "write": {"filePath": _PATHS, "content": _TEXTS},
    "edit": {"filePath": _PATHS, "oldString": _TEXTS, "newString": _TEXTS, "replaceAll": st.booleans()},
    "list": {"path": _PATHS, "ignore": st.lists(st.text(max_size=12), max_size=4)},
}


def _calls(tool: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    fields = {name: st.one_of(good, good, good, _JUNK) for name, good in _FIELDS[tool].items()}
    required = {name: each for name, each in fields.items() if name in {"filePath", "content"}}
    optional = {name: each for name, each in fields.items() if name not in required}
    return st.tuples(st.just(tool), st.fixed_dictionaries(required, optional=optional))


def _furnished(folder: Path) -> ToolDesk:
    desk = ToolDesk(folder)
    desk.put("a", "one\ntwo\n")
    desk.put("dir/a", "one\r\ntwo")
    desk.put("bin", b"\0\1\2")
    (desk.root / "link").symlink_to(desk.outside)
    (desk.root / "loop").symlink_to("loop")
    (desk.root / "gone").symlink_to("nowhere")
    os.mkfifo(desk.root / "pipe")
    return desk


def _listed(desk: ToolDesk, context: ToolContext, arguments: dict[str, Any]) -> ListedTree:
    """The listing itself, in this process: so many of its own would take long."""
    place = desk.seen.plan_of(context.call_id).place
    ignore = tuple(arguments.get("ignore", ()))
    return build_tree(
        desk.files, TreeListing(root=desk.files.root, place=place, ignore=ignore, seconds=60), lambda: False
    )


async def _made(desk: ToolDesk, calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    errors: list[str] = []
    for tool, arguments in calls:
        context = desk.context()
        try:
            asks = await desk.plan(tool, context, **arguments)
            encode_body(asks)
            if all(ask.permission != "external_directory" for ask in asks):
                encode_body(
                    _listed(desk, context, arguments)
                    if tool == "list"
                    else await desk.run(tool, context, **arguments)
                )
        except msgspec.ValidationError:
            pass  # the engine tells the model
        except ToolError as error:
            errors.append(str(error))
    return errors


@pytest.mark.spec("A-05")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(sorted(_FIELDS)).flatmap(_calls), min_size=1, max_size=6))
def test_any_arguments_end_in_a_result_or_a_tool_error(calls: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = _furnished(Path(os.path.realpath(folder)))
        errors = asyncio.run(_made(desk, calls))
        assert all(error.endswith((".", "?")) for error in errors)
        assert (desk.outside / "secret.txt").read_text() == SECRET
        assert os.listdir(desk.outside) == ["secret.txt"]
        assert os.listdir(desk.home) == []
