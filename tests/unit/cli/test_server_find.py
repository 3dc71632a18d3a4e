"""Which server a command goes to, and with which token."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.cli.exit import CliError
from asyncagents.cli.find_server import TOKEN_VARIABLE, TargetServer, find_target_server
from asyncagents.client.server_finder import DataDirectoryFinder
from asyncagents.config.secret import Secret
from asyncagents.errors import StoreError, Unavailable
from asyncagents.server.discovery import Listing, ServerLock, write_listing

LISTING = Listing(port=5170, pid=1, started_at="", url="http://127.0.0.1:5170", token="of-the-data")


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    with closing(ServerLock(tmp_path)):
        write_listing(tmp_path, LISTING)
        yield tmp_path


def test_the_server_of_the_data_is_found(served: Path) -> None:
    assert find_target_server(served, None, None) == TargetServer(
        LISTING.url, Secret("of-the-data"), own=True
    )


def test_the_listing_of_a_dead_server_is_ignored(tmp_path: Path) -> None:
    write_listing(tmp_path, LISTING)
    assert find_target_server(tmp_path, None, None) is None


def test_the_listing_of_a_dead_server_is_ignored_while_the_next_one_starts(tmp_path: Path) -> None:
    """It has the lock long before it listens; whoever asks meanwhile would tell a stranger the token."""
    write_listing(tmp_path, LISTING)
    with closing(ServerLock(tmp_path)):
        assert find_target_server(tmp_path, None, None) is None
        with pytest.raises(Unavailable):
            DataDirectoryFinder(tmp_path)()


def test_a_server_that_belongs_to_a_run_is_not_used_by_other_commands(tmp_path: Path) -> None:
    with closing(ServerLock(tmp_path)):
        write_listing(tmp_path, Listing(port=1, pid=1, started_at="", url="http://h:1", serves_all=False))
        assert find_target_server(tmp_path, None, None) is None
        with pytest.raises(CliError, match="belongs to a run"):
            find_target_server(tmp_path, "http://h:1", None)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:5170", "http://localhost:5170/", " http://[::1]:5170 "],
)
def test_the_token_of_a_data_directory_is_used_for_its_own_server(served: Path, url: str) -> None:
    server = find_target_server(served, url, None)
    assert server is not None
    assert server.own is True
    assert server.token == Secret("of-the-data")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:5171", "https://example.com:5170", "http://127.0.0.1.example.com:5170"]
)
def test_the_token_of_a_data_directory_is_used_for_no_other_server(served: Path, url: str) -> None:
    assert find_target_server(served, url, None) == TargetServer(url, None, own=False)


def test_a_token_that_is_given_goes_before_that_of_the_environment(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "of-the-shell")
    shell = find_target_server(served, "http://127.0.0.1:5170", None)
    given = find_target_server(served, "http://127.0.0.1:5170", Secret("given"))
    assert shell is not None
    assert given is not None
    assert shell.token == Secret("of-the-shell")
    assert given.token == Secret("given")
    assert "given" not in repr(given)


@pytest.mark.parametrize(
    "url",
    ["", "5165", "localhost:5165", "ftp://h:1", "http://", "http://h:x", "http://h:99999", "http://u:secret@h",
     "http://h/?token=1", "http://[::1"],
)  # fmt: skip
def test_an_invalid_server_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(CliError, match="is not a valid server address") as refused:
        find_target_server(tmp_path, url, None)
    assert refused.value.exit_code == 2
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("token", ["a\nb", "ä", "a\0b"])
def test_a_token_that_is_not_printable_ascii_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(CliError, match="the token must be printable ASCII") as refused:
        find_target_server(tmp_path, "http://127.0.0.1:5170", Secret(token))
    assert token not in refused.value.message


def test_the_listing_omits_serves_all_by_default_and_is_private(tmp_path: Path) -> None:
    write_listing(tmp_path, LISTING)
    assert "servesAll" not in json.loads((tmp_path / "server.json").read_text())
    assert os.stat(tmp_path / "server.json").st_mode & 0o777 == 0o600


def test_data_that_cannot_be_written_takes_no_lock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"^the data directory .*/file cannot be written: Not a directory$"):
        ServerLock(tmp_path / "file")
