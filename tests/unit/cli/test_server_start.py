"""Finding the server of a data directory or starting one: what needs no process of its own."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.cli.exit import CliError
from asyncagents.cli.find_server import TargetServer
from asyncagents.cli.start_server import LOG_FILE, MOST_LOG_BYTES, ServerLog, find_or_start_server
from asyncagents.config.env import Environment
from asyncagents.config.paths import absolute_variables
from asyncagents.config.secret import Secret
from asyncagents.server.discovery import Listing, ServerLock, remove_listing, write_listing
from tests.support.wait import wait_until

LISTING = Listing(port=5170, pid=1, started_at="", url="http://127.0.0.1:5170", token="of-the-data")
FOUND = TargetServer(LISTING.url, Secret("of-the-data"), own=True)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose server holds the lock and is not listed yet: no other one is started."""
    with closing(ServerLock(tmp_path)):
        yield tmp_path


async def test_a_server_that_runs_is_found_and_none_is_started(data: Path) -> None:
    write_listing(data, LISTING)
    assert await find_or_start_server(data, data) == FOUND
    assert not (data / LOG_FILE).exists()


async def test_a_server_that_runs_is_found_although_the_api_is_disabled_here(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCAGENTS_API_ENABLED", "false")
    assert await find_or_start_server(data, data) is None
    write_listing(data, LISTING)
    assert await find_or_start_server(data, data) == FOUND


async def test_a_server_that_another_process_starts_is_awaited(data: Path) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(find_or_start_server(data, data))
        await wait_until((data / LOG_FILE).exists)
        write_listing(data, LISTING)
    assert waiting.result() == FOUND


async def test_the_server_of_a_run_leaves_the_work_to_the_caller(data: Path) -> None:
    write_listing(data, Listing(port=1, pid=1, started_at="", url="http://h:1", serves_all=False))
    assert await find_or_start_server(data, data) is None


async def test_a_server_that_never_listens_is_an_error_in_bounded_time(data: Path) -> None:
    write_listing(data, LISTING)
    remove_listing(data)
    (data / LOG_FILE).write_text("of an earlier server\n")
    with pytest.raises(CliError) as refused:
        await find_or_start_server(data, data, seconds=0.1)
    assert refused.value.message == f"the server of {data} is not listening after 0.1 s"
    assert refused.value.hint == f"its log is {data / LOG_FILE}"


@pytest.mark.parametrize(
    ("program", "starts", "message"),
    [
        ("echo error: no model; exit 7", 3, "has ended 3 times before it listened:\nerror: no model"),
        ("exit 4", 3, "has ended 3 times before it listened"),
        ("kill -9 $$", 3, "has ended 3 times before it listened"),
    ],
)
async def test_a_server_that_ends_before_it_listens_is_started_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, program: str, starts: int, message: str
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{program}\n")
    interpreter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    data = tmp_path / "data"
    with pytest.raises(CliError) as refused:
        await find_or_start_server(data, tmp_path)
    assert refused.value.message == f"the server of {data} {message}"
    assert (data / LOG_FILE).read_text().count("started by process") == starts


@pytest.mark.parametrize("place", ["a file", "below a file"])
async def test_a_data_directory_that_cannot_be_made_is_an_error(tmp_path: Path, place: str) -> None:
    file = tmp_path / "file"
    file.touch()
    data = file if place == "a file" else file / "data"
    with pytest.raises(CliError, match=f"no server can be started on {data}: ") as refused:
        await find_or_start_server(data, tmp_path)
    assert "the data directory must be writable" in refused.value.hint


async def test_a_log_that_is_a_link_is_not_written_to(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    (data / LOG_FILE).symlink_to(target)
    with pytest.raises(CliError, match=LOG_FILE):
        await find_or_start_server(data, data)
    assert target.read_bytes() == b""


async def test_relative_paths_are_those_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text('#!/bin/sh\necho "$@"; exit 7\n')
    interpreter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CliError) as refused:
        await find_or_start_server(Path("data"), Path("project"))
    places = f"--directory {tmp_path / 'project'} --data-dir {tmp_path / 'data'}"
    assert refused.value.message.endswith(f"-P -m asyncagents serve --until-rest {places}")


def test_a_long_log_is_put_aside_before_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    path.write_bytes(b"x" * (MOST_LOG_BYTES + 1))
    for text in ("first", "second"):
        with ServerLog(path) as log:
            log.begin(text)
    assert [line.split()[1] for line in path.read_text().splitlines()] == ["first", "second"]
    assert (tmp_path / f"{LOG_FILE}.old").stat().st_size == MOST_LOG_BYTES + 1


def test_an_error_shows_the_end_of_what_was_logged_since_the_start(tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    path.write_text("of an earlier server\n")
    with ServerLog(path) as log, path.open("a") as server:
        log.begin("started")
        server.write("first\n" + "x" * 3000 + "\nlast\n")
        server.flush()
        shown = log.error("it has ended").message
    assert shown.startswith("it has ended:\nxxx")
    assert shown.endswith("\nlast")
    assert len(shown) < 2_100


def test_variables_with_paths_are_made_absolute(tmp_path: Path) -> None:
    variables = {"ASYNCAGENTS_CONFIG": "mine.json", "ASYNCAGENTS_DATA_DIR": "~/data", "OTHER": "a/b"}
    environment = Environment(variables=variables, home=tmp_path / "home", platform="linux", cwd=tmp_path)
    assert absolute_variables(environment) == {
        "ASYNCAGENTS_CONFIG": str(tmp_path / "mine.json"),
        "ASYNCAGENTS_DATA_DIR": str(tmp_path / "home" / "data"),
        "OTHER": "a/b",
    }
