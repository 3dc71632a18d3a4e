"""Webfetch under real rules: what is not the public web asks by its own permission, and redirects obey."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.scripted import ScriptLine, call, say
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.tools.builtin.webfetch import webfetch
from tests.support.hostile.address import NEVER, SPELLINGS
from tests.support.hostile.yard import asks_after_always, create_yard, open_coder, run_calls
from tests.support.runtime import open_stage
from tests.support.workspace.web_site import (
    CANARY,
    LocalService,
    answer_with,
    open_door,
    open_site,
    processes,
    redirect_to,
    serve,
)

EVERYTHING: dict[str, Any] = {"*": "allow", "webfetch": "allow"}


def fetches(*urls: str) -> list[ScriptLine]:
    return [call("webfetch", url=url, format="text") for url in urls]


@pytest.mark.spec("A-03", "A-04")
@pytest.mark.parametrize("agent", ["build", "explore"])
async def test_no_spelling_of_a_local_address_is_fetched_unasked(tmp_path: Path, agent: str) -> None:
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port:
        calls = fetches(*(each.format(port=port) for each in SPELLINGS))
        found = await run_calls(tmp_path, create_yard(tmp_path), calls, agent=agent, permission=EVERYTHING)
    ran = [SPELLINGS[number] for number in found.unasked]
    assert ran == []
    assert service.requests == []
    assert CANARY not in found.text
    asked = {each.permission for each in found.asks if each is not None}
    assert asked == {"webfetch_local"}


@pytest.mark.spec("A-04")
async def test_a_local_server_is_fetched_when_a_person_allows_it(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", handler=service.answer) as port:
        url = f"http://localhost:{port}/page"
        async with open_coder(tmp_path, create_yard(tmp_path), fetches(url)) as at:
            await at.runtime.send(at.session_id, "go")
            asked = await at.listener.until(PermissionAsked)
            assert service.requests == []
            await at.runtime.answer(asked.request.id, "once")
            await at.runtime.wait(at.session_id)
            (state,) = await at.states()
    assert asked.request.permission == "webfetch_local"
    assert asked.request.patterns == (url,)
    assert asked.request.metadata["addresses"] == "127.0.0.1, ::1"
    assert isinstance(state, ToolCompleted)
    assert state.output == CANARY
    assert len(service.requests) == 1


@pytest.mark.spec("Z-06")
async def test_always_is_for_one_local_server_alone(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", handler=service.answer) as port:
        first, same = f"http://127.0.0.1:{port}/a", f"http://127.0.0.1:{port}/b?c"
        others = (
            f"http://127.0.0.1:{port + 1}/a",
            f"http://localhost:{port}/a",
            f"https://127.0.0.1:{port}/",
        )
        asks = await asks_after_always(
            tmp_path, create_yard(tmp_path), fetches(first), fetches(same, *others)
        )
    assert sorted(each.patterns[0] for each in asks) == sorted(others)
    assert len(service.requests) == 2


@pytest.mark.spec("A-05")
async def test_the_own_server_and_metadata_addresses_are_never_fetched(tmp_path: Path) -> None:
    rules = {**EVERYTHING, "webfetch_local": "allow"}
    place = create_yard(tmp_path)
    script: dict[str, list[list[ScriptLine]]] = {"go": []}
    agents = {name: AgentConfig(mode="all") for name in ("explore", "general")}
    coding = Config(data_dir=tmp_path / "data", permission=rules, agent=agents)
    async with (
        open_stage(tmp_path / "data", script, coding=coding, directory=place.root) as at,
        open_server(at.runtime, tmp_path / "data", ServerOptions(port=0), directory=place.root) as listing,
    ):
        hosts = ("127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "①②⑦.⓪.⓪.①", "127.1.2.3")
        urls = [f"http://{host}:{listing.port}/v1/health" for host in hosts]
        never = [url for url in NEVER if ".test" not in url]
        script["go"] += [fetches(*urls, *never), [say("Done.")]]
        await at.prompt("go")
        states = await at.states()
    own, other = states[: len(urls)], states[len(urls) :]
    assert len(other) == len(never)
    assert all(isinstance(each, ToolFailed) and "the server that runs you" in each.error for each in own)
    assert all(isinstance(each, ToolFailed) and "nothing can be fetched" in each.error for each in other)


@pytest.mark.spec("A-03", "A-04")
async def test_a_redirect_is_judged_by_the_rules_of_the_session(tmp_path: Path) -> None:
    """One that is allowed is followed; one that must be asked for is asked for in a call of its own."""
    service = LocalService()
    async with (
        serve("127.0.0.1", handler=service.answer) as port,
        open_site(there=answer_with("there"), secret=answer_with("secret"), other=answer_with("other")) as to,
        open_site(
            there=redirect_to(f"{to}/there"),
            other=redirect_to(f"{to}/other"),
            secret=redirect_to(f"{to.replace('http', 'HTTP')}/a/%2e%2e/secret"),
            local=redirect_to(f"http://127。0。0。1:{port}/"),
        ) as base,
        open_door() as door,
    ):
        pages = {"*": "allow", "*/other": "ask", "*/secret": "deny", f"{base}/*": "allow"}
        rules: dict[str, Any] = {"*": "allow", "webfetch": pages, "webfetch_local": "allow"}
        names = ("there", "other", "secret", "local")
        script = {
            "go": [fetches(*(f"{base}/{name}" for name in names)), fetches(f"{to}/other"), [say("Done.")]]
        }
        coding = Config(data_dir=tmp_path / "data", permission=rules)
        tool = webfetch(door, processes(tmp_path))
        async with open_stage(
            tmp_path / "data", script, coding=coding, tools=[tool], directory=create_yard(tmp_path).root
        ) as at:
            await at.runtime.send(at.session_id, "go")
            asked = await at.listener.until(PermissionAsked)
            await at.runtime.answer(asked.request.id, "once")
            await at.runtime.wait(at.session_id)
            states = await at.states()
    there, other, secret, local, again = states
    assert asked.request.patterns == (f"{to}/other",)
    assert isinstance(there, ToolCompleted)
    assert isinstance(again, ToolCompleted)
    assert there.output == "there"
    assert again.output == "other"
    assert service.requests == []
    assert isinstance(other, ToolFailed)
    assert f"redirects to {to}/other. If you want that page, call webfetch" in other.error
    assert isinstance(secret, ToolFailed)
    assert f"redirects to {to}/secret, which the rules do not allow" in secret.error
    assert isinstance(local, ToolFailed)
    assert "a page of the web cannot lead there" in local.error
