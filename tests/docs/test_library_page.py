"""docs/library.md is what its generator prints, and describes every public name of the library."""

import ast
import re

import pytest

import asyncagents
from scripts.library_reference import GROUPS, PAGE, describe, methods, reference

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_equals_the_output_of_the_generator() -> None:
    assert reference() == TEXT, "run `make reference`"


def test_every_public_name_is_in_one_section() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(asyncagents.__all__)


@pytest.mark.parametrize("name", asyncagents.__all__)
def test_a_public_name_has_a_heading_and_a_docstring_of_a_sentence(name: str) -> None:
    assert f"\n### `{name}`\n" in TEXT
    assert re.search(r"\w{2,} \w.*\.", describe(name).text, re.DOTALL), "a sentence that ends with a period"


def test_every_method_of_a_runtime_has_a_docstring() -> None:
    found = methods(describe("Runtime"))
    assert len(found) > 30
    assert [node.name for node in found if not ast.get_docstring(node)] == []


def test_every_link_of_the_contents_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }
    links = re.findall(r"\]\(#([^)]+)\)", TEXT)
    assert len(links) == len(GROUPS)
    assert set(links) <= headings
