"""docs/threat-model.md names tests that are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "threat-model.md"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_named_on_the_page_exists(file: str, name: str) -> None:
    found = re.findall(rf"^(?:async )?def {name}\(", (TESTS / file).read_text(), re.MULTILINE)
    assert len(found) == 1


def test_each_promise_names_a_test() -> None:
    """A line of a table of promises ends in its proof."""
    tables = PAGE.read_text().split("| promise | test |\n|---|---|\n")[1:]
    lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
    assert lines
    assert [line for line in lines if "::test_" not in line] == []
