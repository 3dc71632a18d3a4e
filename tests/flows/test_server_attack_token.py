"""The token: who guesses it, who reads it, and where it must not be seen."""

import asyncio
import os
import socket
import sqlite3
import stat
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from asyncagents import ScriptedModel
from asyncagents.client.server_finder import DataDirectoryFinder
from asyncagents.config.clock import SystemRng
from asyncagents.errors import ConfigError, StoreError, Unavailable
from asyncagents.server import auth as gate_room
from asyncagents.server.discovery import Listing, ServerLock, find_server, read_token, write_listing
from asyncagents.server.routes import ROUTES
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.raw import has_ipv6, lan_address, open_target
from tests.support.runtime import open_runtime

PENDING = "/async-tool/pending"
TRACE = 5


def _basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


async def test_only_the_whole_token_is_accepted(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        token = at.token
        good = [f"Bearer {token}", f"bearer {token}", f"Bearer  {token} ", _basic(f"opencode:{token}")]
        bad = [
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {token[:-1]}",
            f"Bearer {token}0",
            f"Bearer {token[::-1]}",
            f"Bearer {token.upper()}" if token.upper() != token else "Bearer x",
            f"Bearer \xe9{token}",
            f"Bearer,{token}",
            f"Bearer {token},{token}",
            f"Basic {token}",
            _basic(token),
            _basic(f"{token}:"),
            _basic(f"{token}:x"),
            "Basic !!!",
            "Basic =",
            f"Digest {token}",
            f"{token}",
            f"Token {token}",
        ]
        let_in = [(await at.request("GET", PENDING, {"Authorization": each})).status for each in good]
        kept_out = {each: (await at.request("GET", PENDING, {"Authorization": each})).status for each in bad}
        by_query = await at.request("GET", f"{PENDING}?token={token}&auth_token={token}&access_token={token}")
        by_cookie = await at.request("GET", PENDING, {"Cookie": f"token={token}"})

    assert set(let_in) == {200}
    assert not {each: status for each, status in kept_out.items() if status != 401}
    assert by_query.status == 401
    assert by_cookie.status == 401


async def test_every_route_with_token_access_refuses_requests_without_it(tmp_path: Path) -> None:
    through = []
    async with open_target(tmp_path) as at:
        for route in (each for each in ROUTES if each.access == "token"):
            path = "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))
            body = b"{}" if route.changes else None
            heard = await at.request(route.method, path, {"Content-Type": "application/json"}, body)
            if heard.status != 401 or "www-authenticate" not in heard.headers:
                through.append((route.path, heard))
        head = await at.request("HEAD", PENDING)

    assert not through
    assert head.status == 401


async def test_the_token_is_compared_in_constant_time(tmp_path: Path) -> None:
    """By the one function that is made for it."""
    names = gate_room.Authorizer._has_token.__code__.co_names

    assert "compare_digest" in names
    async with open_target(tmp_path) as at:
        assert (await at.request("GET", PENDING, at.bearer)).status == 200


@pytest.mark.parametrize("hostname", ["0.0.0.0", "::", "lan", "name"])
async def test_no_auth_is_refused_for_an_address_that_other_machines_reach(
    tmp_path: Path, hostname: str
) -> None:
    named = {"lan": lan_address(), "name": socket.gethostname()}.get(hostname, hostname)
    if hostname == "name" and socket.gethostbyname(named).startswith("127."):
        pytest.skip("this machine's name stands for itself alone")
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime:
        with pytest.raises(ConfigError, match="--no-auth requires a loopback address"):
            async with open_server(runtime, tmp_path, ServerOptions(hostname=named, port=0, auth=False)):
                pass

    assert not (tmp_path / "server.json").exists()
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("hostname", ["127.0.0.1", "localhost", "127.8.9.10", "::1"])
async def test_no_auth_is_allowed_for_a_loopback_address(tmp_path: Path, hostname: str) -> None:
    if hostname == "::1" and not has_ipv6():
        pytest.skip("there is no IPv6 here")
    async with (
        open_runtime(tmp_path, model=ScriptedModel({})) as runtime,
        open_server(runtime, tmp_path, ServerOptions(hostname=hostname, port=0, auth=False)) as listing,
    ):
        assert listing.token is None
        assert listing.url.endswith(f":{listing.port}")


@pytest.mark.parametrize("hostname", ["", "no.such.name.invalid", "256.1.1.1", "a" * 300, "\0", "1.2.3.4"])
async def test_an_address_that_cannot_be_bound_is_a_config_error(tmp_path: Path, hostname: str) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime:
        with pytest.raises(ConfigError, match="listen at"):
            async with open_server(runtime, tmp_path, ServerOptions(hostname=hostname, port=0)):
                pass


async def test_a_server_on_all_addresses_requires_the_token_except_for_health(tmp_path: Path) -> None:
    """By whatever name: no name server opens anything to anybody who has no token."""
    async with open_target(tmp_path, hostname="0.0.0.0") as at:
        for host in ("anything.example", "127.0.0.1", "localhost", "10.1.2.3:80"):
            assert (await at.request("GET", "/v1/health", {"Host": host})).status == 200
            assert (await at.request("GET", "/v1/tasks", {"Host": host})).status == 401
            assert (await at.request("GET", "/v1/events", {"Host": host})).status == 401
            assert (await at.request("GET", "/v1/tasks", {"Host": host, **at.bearer})).status == 200
        page = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert (await at.request("GET", "/v1/tasks", page)).status == 401
        assert (await at.request("POST", "/async-tool/webhook", {}, b"{}")).status == 401


async def test_token_files_are_private_and_the_listing_is_removed_with_the_server(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_target(tmp_path) as at:
            listing, token = tmp_path / "server.json", tmp_path / "token"
            modes = [stat.S_IMODE(os.lstat(path).st_mode) for path in (listing, token)]
            said = listing.read_text()
    finally:
        os.umask(before)

    assert modes == [0o600, 0o600]
    assert at.token in said
    assert len(at.token) == 64
    assert not listing.exists()
    assert [name for name in os.listdir(tmp_path) if "token" in name] == ["token"]
    async with open_target(tmp_path) as again:
        assert again.token == at.token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o666])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    token = read_token(tmp_path, SystemRng())
    (tmp_path / "token").chmod(mode)

    with pytest.raises(StoreError, match="accessible to other users") as error:
        read_token(tmp_path, SystemRng())

    assert token not in str(error.value)


def test_a_token_file_that_is_a_link_a_pipe_or_a_folder_is_refused(tmp_path: Path) -> None:
    read_token(tmp_path, SystemRng())
    (tmp_path / "token").rename(tmp_path / "elsewhere")
    for make in (
        lambda path: path.symlink_to(tmp_path / "elsewhere"),
        lambda path: path.symlink_to(tmp_path / "nowhere"),
        lambda path: os.mkfifo(path, 0o600),
        lambda path: path.mkdir(0o700),
    ):
        make(path := tmp_path / "token")
        with pytest.raises(StoreError):
            read_token(tmp_path, SystemRng())
        path.rmdir() if path.is_dir() else path.unlink()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 64, b"a" * 31, b"a b" * 30, b"\0" * 64])
def test_a_token_file_without_a_valid_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    (tmp_path / "token").chmod(0o600)

    with pytest.raises(StoreError, match="holds no valid token"):
        read_token(tmp_path, SystemRng())


def test_concurrent_readers_of_a_new_token_create_only_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: read_token(tmp_path, SystemRng()), range(64)))

    assert len(tokens) == 1


def test_a_symlink_in_place_of_the_server_listing_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "server.json").symlink_to(tmp_path / "loot")
    (tmp_path / "server.json.new").symlink_to(tmp_path / "loot")

    async def serve() -> None:
        async with open_target(tmp_path):
            assert not (tmp_path / "server.json").is_symlink()

    asyncio.run(serve())
    assert not (tmp_path / "loot").exists()


def test_the_listing_of_a_killed_server_is_ignored_while_the_next_one_starts(
    tmp_path: Path,
) -> None:
    """The token outlives both, and whoever waits for the next one looks for it all the time."""
    token = read_token(tmp_path, SystemRng())
    stranger = Listing(port=1, pid=1, started_at="", url="http://127.0.0.1:1", token=token)
    write_listing(tmp_path, stranger)  # and killed: nobody took it away

    with closing(ServerLock(tmp_path)):
        assert find_server(tmp_path) is None
        with pytest.raises(Unavailable):
            DataDirectoryFinder(tmp_path)()


async def test_the_token_is_in_no_log_response_repr_or_command_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the finest level, of our own and of libraries, and with what fails unexpectedly."""
    for logger in ("", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "asyncagents"):
        caplog.set_level(TRACE, logger)
    heard = []
    async with open_target(tmp_path) as at:
        asyncio.get_running_loop().set_debug(True)
        token = at.token
        heard += [await at.request("GET", path, at.bearer) for path in ("/v1/tasks", PENDING, "/nowhere")]
        heard.append(await at.request("POST", "/async-tool/result", at.bearer, b"{"))
        heard.append(await at.request("GET", f"{PENDING}?limit=x", {"Authorization": _basic(f"a:{token}")}))
        heard.append(
            await at.send_raw(f"GET / HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\0bad\r\n\r\n".encode())
        )
        with _broken(tmp_path / "asyncagents.db"):
            heard.append(await at.request("GET", PENDING, at.bearer))
        shown = [repr(at.listing), str(at.listing), _command_line()]
        asyncio.get_running_loop().set_debug(False)

    assert heard[-1].status in {500, 503}
    assert "Traceback" in caplog.text
    said = capfd.readouterr()
    told = [each.body.decode() + str(each.headers) for each in heard]
    assert not [text for text in (caplog.text, said.out, said.err, *told, *shown) if token in text]


@contextmanager
def _broken(database: Path) -> Iterator[None]:
    """A table is missing meanwhile."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("ALTER TABLE call RENAME TO hidden")
        try:
            yield
        finally:
            db.execute("ALTER TABLE hidden RENAME TO call")


def _command_line() -> str:
    return Path("/proc/self/cmdline").read_text() + Path("/proc/self/environ").read_text()


async def test_a_401_response_explains_how_to_gain_access(tmp_path: Path) -> None:
    page, proxied = {"Origin": "http://localhost:3000"}, {"X-Forwarded-For": "192.0.2.1"}
    async with open_target(tmp_path / "token") as at:
        none = await at.request("GET", PENDING)
        other = await at.request("GET", PENDING, {"Authorization": f"Bearer {'0' * 64}"})
        foreign = await at.request("GET", "/v1/tasks", page)
    async with open_target(tmp_path / "no_auth", auth=False) as at:
        no_auth = await at.request("GET", "/v1/tasks", proxied)
    assert [each.status for each in (none, other, foreign, no_auth)] == [401] * 4
    assert b"a token is required" in none.body
    assert b"the token is wrong" in other.body
    assert b"--cors ORIGIN" in foreign.body
    assert b"without --no-auth" in no_auth.body
