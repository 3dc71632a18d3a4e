"""Every fenced block of the pages is run, compared by a test of its page, or marked as an excerpt."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncagents.errors import ConfigError
from asyncagents.testing.provider import open_provider
from tests.support.fenced_block import (
    CONFIG,
    KEY,
    Bench,
    Block,
    check_config,
    find_pages,
    find_problems,
    parse_blocks,
    printed_text,
    read_blocks,
)

PAGES = find_pages()
BLOCKS = {page: read_blocks(page) for page in PAGES}
RUN = [block for page in PAGES for block in BLOCKS[page] if block.is_run]
PROGRAMS = [block for block in RUN if block.language not in CONFIG]
CONFIGS = [block for block in RUN if block.language in CONFIG]


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    """Serve the scripted model, in a thread of its own, while the blocks of this module run."""
    ready = threading.Event()
    urls: list[str] = []
    stops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with open_provider(key=KEY, remember=False) as provider:
            stop = asyncio.Event()
            stops.append((asyncio.get_running_loop(), stop))
            urls.append(provider.url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(timeout=30)
    yield urls[0]
    for loop, stop in stops:
        loop.call_soon_threadsafe(stop.set)
    thread.join()


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_without_a_rule(page: str) -> None:
    assert find_problems(BLOCKS[page]) == []


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_of_a_page_runs_and_prints_the_shown_output(
    block: Block, tmp_path: Path, provider_url: str
) -> None:
    outcome = Bench(tmp_path, provider_url).run(block)
    assert outcome.code == 0, outcome.out + outcome.err
    shown = printed_text(BLOCKS[block.page], block)
    if shown is not None:
        assert outcome.out == shown.text
        assert outcome.err == ""


@pytest.mark.parametrize("block", CONFIGS, ids=str)
def test_a_configuration_of_a_page_loads_without_a_warning(block: Block, tmp_path: Path) -> None:
    assert check_config(block, tmp_path) == ()


# The rules themselves.


def page(*lines: str) -> list[Block]:
    return list(parse_blocks("docs/page.md", "\n".join(lines) + "\n"))


def fence(info: str, *lines: str) -> tuple[str, ...]:
    return (f"```{info}", *lines, "```")


@pytest.mark.parametrize(
    "lines",
    [
        fence("python excerpt", "run()"),
        fence("python", "run()"),
        fence("sh", "true"),
        fence("jsonc", "{}"),
        (*fence("python", "print(1)"), "It prints:", *fence("text", "1")),
    ],
)
def test_a_block_with_a_rule_is_no_problem(lines: tuple[str, ...]) -> None:
    assert find_problems(page("# Page", *lines)) == []


@pytest.mark.parametrize(
    "lines",
    [
        fence("", "run()"),
        fence("js", "run()"),
        fence("text", "1"),
        (*fence("sh", "true"), *fence("text", "1")),
        (*fence("python excerpt", "run()"), *fence("text", "1")),
        (*fence("python", "print(1)"), "## Another section", *fence("text", "1")),
        (*fence("python", "print(1)"), *fence("sh", "true"), *fence("text", "1")),
    ],
)
def test_a_block_without_a_rule_is_a_problem(lines: tuple[str, ...]) -> None:
    [problem] = find_problems(page("# Page", *lines))
    assert "is neither run nor an excerpt, and no test is named" in problem


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("tests/test_page.py", None),
        ("tests/test_page.py, tests/test_page.py", None),
        ("tests/test_none.py", "docs/page.md:2: there is no test module tests/test_none.py"),
        ("scripts/test_page.py", "docs/page.md:2: there is no test module scripts/test_page.py"),
        ("tests/test_other.py", "docs/page.md:2: tests/test_other.py does not mention page.md"),
        ("", "docs/page.md:2: there is no test module "),
    ],
)
def test_a_named_test_must_exist_and_name_the_page(tmp_path: Path, comment: str, problem: str | None) -> None:
    for path, text in (
        ("tests/test_page.py", 'PAGE = "page.md"'),
        ("tests/test_other.py", 'PAGE = "other.md"'),
        ("scripts/test_page.py", 'PAGE = "page.md"'),
    ):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    blocks = page(f"<!-- test: {comment} -->", *fence("js", "run()"))
    assert not any(block.is_run for block in blocks)
    assert find_problems(blocks, tmp_path) == ([] if problem is None else [problem])


def test_a_comment_that_is_not_directly_above_the_fence_names_no_test() -> None:
    assert find_problems(page("<!-- test: tests/docs/test_blocks.py -->", "", *fence("js", "run()")))


def test_a_block_of_a_list_loses_its_indent_and_a_longer_fence_holds_a_shorter_one() -> None:
    listed, outer = page("* One:", "  ```sh", "  echo 1", "  ```", "````markdown", *fence("sh", "no"), "````")
    assert listed.text == "echo 1\n"
    assert listed.line == 2
    assert listed.language == "sh"
    assert outer.text == "```sh\nno\n```\n"
    assert outer.language == "markdown"


def test_a_block_that_is_never_closed_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"docs/page.md:2: this block has no closing fence"):
        page("Text", "```sh", "true")


@pytest.mark.parametrize(
    ("block", "ended"),
    [
        (fence("sh", "false", "echo on"), (1, "")),
        (fence("sh", "ls", "asyncagents run 'Say ok.'"), (0, "ok\n")),
        (fence("python", "import warnings", "warnings.warn('old')"), (1, "")),
    ],
)
def test_a_block_runs_in_an_empty_directory_and_its_failure_is_seen(
    tmp_path: Path, provider_url: str, block: tuple[str, ...], ended: tuple[int, str]
) -> None:
    [program] = page(*block)
    outcome = Bench(tmp_path, provider_url).run(program)
    assert (outcome.code, outcome.out) == ended, outcome.err


@pytest.mark.timeout(30)
def test_a_process_that_a_block_leaves_behind_is_ended(tmp_path: Path, provider_url: str) -> None:
    [program] = page(*fence("sh", "sleep 1000 &", "echo started"))
    assert Bench(tmp_path, provider_url).run(program).out == "started\n"


def test_a_configuration_with_an_unknown_key_or_a_wrong_type_is_found(tmp_path: Path) -> None:
    [known] = page(*fence("jsonc", '{"model": "a/b", "username": "{env:WHO}" /* a comment */}'))
    [unknown] = page(*fence("json", '{"modle": "a/b"}'))
    [wrong] = page(*fence("json", '{"model": 1}'))
    assert check_config(known, tmp_path / "known") == ()
    assert check_config(unknown, tmp_path / "unknown") != ()
    with pytest.raises(ConfigError):
        check_config(wrong, tmp_path / "wrong")
