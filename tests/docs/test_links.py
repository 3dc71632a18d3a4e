"""Every relative link of the pages leads to a file, and to a heading of it if the link names one."""

import re

import pytest

from tests.support.fenced_block import FENCE, find_pages
from tests.support.path import ROOT

LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def lines_outside_blocks(text: str) -> list[str]:
    """Return the lines of a page without its fenced blocks."""
    kept: list[str] = []
    fence: str | None = None
    for line in text.splitlines():
        if fence is not None:
            fence = None if re.fullmatch(rf" *{fence}`* *", line) else fence
        elif (opening := FENCE.match(line)) is not None:
            fence = opening["fence"]
        else:
            kept.append(line)
    return kept


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for line in lines_outside_blocks(text):
        if (heading := re.match(r"#{1,6} (.+)", line)) is not None:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            found.add(
                next(each for each in (name, *(f"{name}-{n}" for n in range(1, 99))) if each not in found)
            )
    return found


def broken_links(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    broken = []
    for link in LINK.findall(CODE.sub("", "\n".join(lines_outside_blocks(text)))):
        path, _, anchor = link.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", find_pages())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: str) -> None:
    assert broken_links(page) == []


def test_an_anchor_is_made_as_github_makes_it() -> None:
    page = "# The `why` codes\n```sh\n# no heading\n```\n## Limits, and [more](x.md)\n## Limits\n## Limits\n"
    assert anchors(page) == {"the-why-codes", "limits-and-more", "limits", "limits-1"}
