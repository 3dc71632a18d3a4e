"""Pages that take for ever to parse hold up nothing, and end."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.errors import ToolError
from asyncagents.tools.web.markdown import MOST_DEPTH, MOST_WRITTEN, to_markdown
from asyncagents.tools.web.markdown_process import read_as_markdown
from tests.support.wait import wait_until
from tests.support.workspace.web_site import Fetcher, answer_with, open_door, open_site, processes

pytestmark = pytest.mark.slow

SLOW = "<a b " * 40_000
"""Python's parser takes minutes for it."""


async def read(folder: Path, html: str, most: int = 50_000, seconds: float = 20) -> tuple[str, bool]:
    found = await read_as_markdown(
        processes(folder), html, base="http://site.test/", most=most, seconds=seconds
    )
    return found.text, found.cut


@pytest.mark.spec("A-05")
async def test_a_page_is_read_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert await read(tmp_path, "<h1>A</h1><a href='/x'>é</a>") == ("# A\n\n[é](http://site.test/x)", False)
    assert await read(tmp_path, "<p>" + "x" * 100, most=10) == ("x" * 10, True)
    assert await read(tmp_path, "") == ("", False)
    assert await read(tmp_path, "<p>&#xd800;</p>\ufffe") == ("\ufffd\n\n\ufffe", False)


async def test_a_page_that_takes_too_long_is_refused_and_delays_no_other(tmp_path: Path) -> None:
    async with (
        open_site(slow=answer_with(SLOW, kind="text/html"), plain=answer_with("plain")) as base,
        open_door() as door,
    ):
        slow = asyncio.ensure_future(Fetcher(door, tmp_path, {})(f"{base}/slow"))
        async with asyncio.timeout(60):
            plain = await Fetcher(door, tmp_path, {})(f"{base}/plain")
            assert not slow.done()
            with pytest.raises(ToolError, match=r'takes too long or too much memory.*format "html"'):
                await slow
        source = await Fetcher(door, tmp_path, {})(f"{base}/slow", "html")
    assert getattr(plain, "output", None) == "plain"
    assert getattr(source, "output", "").startswith("<a b <a b ")
    assert _workers() == []


async def test_a_cancel_ends_the_parsing(tmp_path: Path) -> None:
    reading = asyncio.ensure_future(read(tmp_path, SLOW))
    async with asyncio.timeout(60):
        await wait_until(_workers)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert _workers() == []


async def test_a_deadline_ends_the_parsing(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="takes too long"):
        await read(tmp_path, SLOW, seconds=1)
    assert _workers() == []


def _workers() -> list[str]:
    """The processes of this test that parse a page."""
    mine = f"ASYNCAGENTS_PROCESS={_own_id()}.".encode()
    return [found.parent.name for found in Path("/proc").glob("[0-9]*/environ") if _is_worker(found, mine)]


def _own_id() -> str:
    return Path("/proc/self").resolve().name


def _is_worker(environ: Path, mine: bytes) -> bool:
    try:
        return (
            mine in environ.read_bytes() and b"markdown_worker" in environ.with_name("cmdline").read_bytes()
        )
    except OSError:
        return False


@pytest.mark.parametrize(
    "page",
    ["<ul><li>" * 60_000, "<ol><li>x" * 60_000, "<ul>" * 400_000 + "<li>x" * 60_000, "<a href=x>y" * 60_000],
)
async def test_a_page_of_very_many_list_items_or_links_is_cut(tmp_path: Path, page: str) -> None:
    text, cut = await read(tmp_path, page)
    assert cut
    assert len(text) == 50_000


def test_markdown_of_deeply_nested_lists_has_a_limited_size_and_indent() -> None:
    nested = to_markdown("<ul><li>" * 60_000)
    assert nested.cut
    assert len(nested.text) <= MOST_WRITTEN
    assert max(map(len, nested.text.splitlines())) == 2 * MOST_DEPTH + 1
    assert to_markdown("<ul><li>a" * 3).text == "- a\n  - a\n    - a"
