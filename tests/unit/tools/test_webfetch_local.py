"""What is not the public web is reached by its own permission, or not at all, however it is written."""

from pathlib import Path

import pytest
from aiohttp import ClientError, web
from yarl import URL

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask
from asyncagents.errors import ToolError
from asyncagents.tools.web.resolver import NotPublic
from asyncagents.tools.web.url import parse_address
from asyncagents.tools.web.web import WebTarget, _open_session, open_web
from tests.support.hostile.address import NAMES, NEVER, SPELLINGS
from tests.support.workspace.web_site import (
    CANARY,
    PUBLIC,
    Fetcher,
    LocalService,
    answer_with,
    open_door,
    reach,
    serve,
    serve_redirects,
)

EVERYTHING = {"*": "allow", "webfetch": "allow", "webfetch*": "allow"}
LOCAL_TOO = {**EVERYTHING, "webfetch_local": "allow"}


@pytest.mark.spec("A-03")
async def test_no_spelling_of_a_local_address_is_fetched_unasked(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port, open_door() as door:
        fetch = Fetcher(door, tmp_path, EVERYTHING)
        asks = [await _held(fetch, spelling.format(port=port)) for spelling in (*SPELLINGS, *NAMES)]
    assert service.requests == []
    assert len(SPELLINGS) >= 100
    assert {ask.permission for ask in asks if ask is not None} == {"webfetch_local"}
    assert sum(ask is not None for ask in asks) > 20  # those that are addresses can be asked for


async def _held(fetch: Fetcher, url: str) -> Ask | None:
    """What is asked for; None: it was refused with a sentence."""
    try:
        done = await fetch(url)
    except ToolError:
        return None
    assert isinstance(done, Ask), url
    return done


@pytest.mark.parametrize("rules", [EVERYTHING, LOCAL_TOO])
async def test_no_spelling_of_a_local_address_is_reached_by_a_redirect(
    tmp_path: Path, rules: dict[str, str]
) -> None:
    service = LocalService()
    refused: dict[str, str] = {}
    async with serve("127.0.0.1", "::1", handler=service.answer) as port, open_door() as door:
        locations = [each.format(port=port) for each in (*SPELLINGS, *NAMES, *NEVER)]
        async with serve_redirects(locations) as base:
            for number, location in enumerate(locations):
                with pytest.raises(ToolError) as error:
                    await Fetcher(door, tmp_path, rules)(f"{base}/{number}")
                refused[location] = str(error.value)
    assert service.requests == []
    assert not [each for each in refused.values() if CANARY in each]
    # What names no host leads to a page of the same site, which is not there.
    assert {each for each, why in refused.items() if "answered 404" in why} == {
        f"http:127.0.0.1:{port}/",
        f"http:/127.0.0.1:{port}/",
        f"http:///127.0.0.1:{port}/",
    }


@pytest.mark.parametrize("url", NEVER)
async def test_link_local_and_metadata_addresses_are_never_reached(tmp_path: Path, url: str) -> None:
    async with open_door() as door:
        with pytest.raises(ToolError, match=r"nothing can be fetched|is no host"):
            await Fetcher(door, tmp_path, LOCAL_TOO)(url)


@pytest.mark.spec("A-05")
async def test_a_local_server_is_fetched_once_that_is_allowed_by_name(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", handler=service.answer) as port, open_door() as door:
        url = f"http://localhost:{port}/"
        asked = await Fetcher(door, tmp_path, {})(url)
        done = await Fetcher(door, tmp_path, LOCAL_TOO)(url)
        by_name = await Fetcher(door, tmp_path, LOCAL_TOO)(f"http://dev.lan:{port}/")
        denied = {"webfetch_local": "allow", "webfetch": {url: "deny"}}
        with_webfetch_denied = await Fetcher(door, tmp_path, denied)(url)
    assert isinstance(asked, Ask)
    assert asked.permission == "webfetch_local"
    assert asked.patterns == (url,)
    assert asked.always == (f"{url}*",)
    assert asked.metadata["addresses"] == "127.0.0.1, ::1"
    assert isinstance(done, Completed)
    assert isinstance(by_name, Completed)
    assert done.output == CANARY
    assert by_name.output == CANARY
    assert isinstance(with_webfetch_denied, Ask)
    assert with_webfetch_denied.permission == "webfetch"


@pytest.mark.parametrize(
    "host", ["[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.1.", "①②⑦.0.0.1", "a.localhost"]
)
async def test_an_address_that_is_allowed_is_dialled_as_it_was_judged(tmp_path: Path, host: str) -> None:
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port, open_door() as door:
        done = await Fetcher(door, tmp_path, LOCAL_TOO)(f"http://{host}:{port}/x")
    assert isinstance(done, Completed)
    assert done.output == CANARY
    assert len(service.requests) == 1


async def test_the_server_that_runs_the_agent_is_never_fetched_from(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port, open_door(port) as door:
        fetch = Fetcher(door, tmp_path, LOCAL_TOO)
        for host in (
            "127.0.0.1",
            "localhost",
            "[::1]",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "dev.lan",
            "127.9.9.9",
        ):
            with pytest.raises(ToolError, match="the server that runs you"):
                await fetch(f"http://{host}:{port}/v1/health")
    assert service.requests == []


async def test_a_redirect_of_a_local_page_is_followed_if_the_rules_allow_it(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/go":
            raise web.HTTPFound("/there")
        return web.Response(text="there")

    async with serve("127.0.0.1", handler=answer) as port, open_door() as door:
        go = f"http://127.0.0.1:{port}/go"
        done = await Fetcher(door, tmp_path, LOCAL_TOO)(go)
        with pytest.raises(ToolError, match="call webfetch with this address") as asked:
            await Fetcher(door, tmp_path, {"webfetch_local": {go: "allow"}})(go)
        with pytest.raises(ToolError, match="the rules do not allow"):
            await Fetcher(door, tmp_path, {"webfetch_local": {go: "allow", "*/there": "deny"}})(go)
    assert isinstance(done, Completed)
    assert done.output == "there"
    assert f"redirects to http://127.0.0.1:{port}/there" in str(asked.value)


async def test_a_host_name_is_not_looked_up_before_its_ask_is_answered(tmp_path: Path) -> None:
    looked: list[str] = []

    async def watched(host: str, port: int) -> list[str]:
        looked.append(host)
        return ["127.0.0.1"]

    async with open_web(look_up=watched) as door:
        for action in ("ask", "deny"):
            asked = await Fetcher(door, tmp_path, {"webfetch": action})("http://secret.evil.test/")
            assert isinstance(asked, Ask)
            assert asked.permission == "webfetch"
            assert looked == []
        with pytest.raises(ToolError, match=r"leads to 127\.0\.0\.1.*such as http://127\.0\.0\.1/"):
            await Fetcher(door, tmp_path, {"webfetch": "ask"}).run("http://secret.evil.test/")
    assert looked == ["secret.evil.test"]


async def test_a_name_that_leads_elsewhere_later_is_dialled_where_it_led_when_it_was_judged(
    tmp_path: Path,
) -> None:
    """A name server answers with a public address first and with one of this machine from then on."""
    answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
    service = LocalService()

    async def rebinds(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async with (
        serve(PUBLIC, handler=answer_with("public")) as port,
        serve("127.0.0.1", handler=service.answer) as _,
        open_web(look_up=rebinds, reach_of=reach) as door,
    ):
        done = await Fetcher(door, tmp_path, EVERYTHING)(f"http://rebound.test:{port}/")
        again = await Fetcher(door, tmp_path, EVERYTHING)(f"http://rebound.test:{port}/")
    assert isinstance(done, Completed)
    assert done.output == "public"
    assert isinstance(again, Ask)
    assert again.permission == "webfetch_local"
    assert service.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "①②⑦.⓪.⓪.①", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
async def test_a_connection_reaches_only_the_addresses_that_were_looked_up(host: str) -> None:
    """Whatever a client library makes of an address: the socket is made for what was judged alone."""
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port:
        target = WebTarget(parse_address(f"http://site.test:{port}/"), ("127.0.0.2",), is_local=False)
        async with _open_session(target) as session:
            with pytest.raises((ClientError, NotPublic)):
                await session.get(URL(f"http://{host}:{port}/"))
    assert service.requests == []
