"""docs/errors.md names every exit code, error class, HTTP error and why code, and no others."""

import ast
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import asyncagents
from asyncagents import errors
from asyncagents.cli import exit as cli_exit
from asyncagents.cli.terminal.signals import HANDLED_SIGNALS
from asyncagents.domain.conversation.failure import FAILURE_NAMES
from asyncagents.domain.why import WhyCode
from asyncagents.server import errors as server_errors
from asyncagents.server.http.messages import ERROR_NAMES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")


def section(title: str, page: str = PAGE) -> str:
    """Return the text below a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return str(text)


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows, without the heads."""
    rows = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    ends = [at for at, cells in enumerate(rows) if set("".join(cells)) <= set("-|")]
    return [cells for at, cells in enumerate(rows) if at not in ends and at + 1 not in ends]


def first_names(title: str, column: int = 0) -> set[str]:
    """Return the names in backticks in one column of the tables of a section."""
    return {name for cells in table_rows(section(title)) for name in re.findall(r"`(\w+)`", cells[column])}


def exit_codes() -> set[int]:
    named = {value for name, value in vars(cli_exit).items() if name.isupper() and isinstance(value, int)}
    return {0} | named | {128 + number for number in HANDLED_SIGNALS}


def error_classes() -> set[str]:
    """Return the classes of `asyncagents.errors`, and the exceptions that `asyncagents` exports."""
    names = {name for name, kind in vars(errors).items() if inspect.isclass(kind)}
    exported = {name: getattr(asyncagents, name) for name in asyncagents.__all__}
    return names | {
        name for name, kind in exported.items() if inspect.isclass(kind) and issubclass(kind, BaseException)
    }


def tagged_names() -> set[str]:
    """Return the error names that the server writes for single routes of OpenCode."""
    tree = ast.parse(inspect.getsource(server_errors))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"\w+Error", text)}


def test_the_page_has_every_exit_code_and_no_other() -> None:
    codes = [cells[0].strip() for cells in table_rows(section("Exit codes"))]
    assert {int(code) for code in codes if code.isdecimal()} == exit_codes()
    by_command = [cells[1] for cells in table_rows(section("Exit codes")) if cells[0].strip().startswith("`")]
    used = {int(code) for text in by_command for code in re.findall(r"(?:^|[,;] )(\d+)\b", text.strip(" |"))}
    assert used == exit_codes()


def test_the_page_has_every_error_class_and_no_other() -> None:
    assert first_names("Errors of the library") == error_classes()


def test_a_star_marks_the_classes_that_the_package_exports() -> None:
    starred = set(re.findall(r"^\| [– ]*`(\w+)` \* \|", section("Errors of the library"), re.MULTILINE))
    assert starred == error_classes() & set(asyncagents.__all__)


def test_the_dashes_show_which_class_is_below_which() -> None:
    above: list[str] = []
    for dashes, name in re.findall(r"^\| ([– ]*)`(\w+)`", section("Errors of the library"), re.MULTILINE):
        depth = dashes.count("–")
        above[depth:] = [name]
        if depth:
            assert issubclass(getattr(errors, name), getattr(errors, above[depth - 1]))


def test_the_page_has_every_error_of_the_server_with_its_status_and_no_other() -> None:
    rows = [cells for cells in table_rows(section("Errors of the server")) if len(cells) == 4]
    assert {int(cells[0]): cells[1].strip(" `") for cells in rows} == ERROR_NAMES
    assert first_names("Errors of the server", 1) - {"_tag", "name"} == tagged_names() | set(
        ERROR_NAMES.values()
    )


def test_the_page_has_every_error_of_a_turn_and_no_other() -> None:
    assert first_names("Errors of a turn") == set(FAILURE_NAMES)


@pytest.mark.spec("X-09")
def test_the_page_has_every_why_code_and_no_other() -> None:
    assert first_names("Why codes") == set(get_args(WhyCode))


def test_a_name_in_another_section_or_a_sentence_is_not_counted() -> None:
    page = "## One\n`no_such_code`\n\n| code | means |\n|---|---|\n| `idle` | `other` |\n\n## Two\n| x |\n"
    rows = table_rows(section("One", page))
    assert [re.findall(r"`(\w+)`", cells[0]) for cells in rows] == [["idle"]]
