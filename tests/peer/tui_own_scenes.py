"""What only our server does, at OpenCode's terminal UI: work outlives a crash, results come later."""

from typing import Any

from aiohttp import ClientSession

from tests.peer.tui_script import GOES_ON
from tests.peer.tui_stage import OurServer, Play


async def an_answer_goes_on_after_a_crash(play: Play, server: OurServer) -> None:
    await play.screen.press("C-x", "n")
    await play.screen.shows("Ask anything")
    # A terminal that is cut off while it opens a session goes home: this one has opened it.
    await play.says("hello there")
    await play.rests("hello there", "a plain answer")
    await play.says("survive this")
    await play.screen.shows("it begins", "esc interrupt")
    await server.kill()
    await server.start()
    await play.rests("survive this", GOES_ON)


async def a_result_that_comes_later_is_waited_for(play: Play, _: OurServer) -> None:
    await play.screen.press("C-x", "n")
    await play.screen.shows("Ask anything")
    await play.says("deploy it")
    await play.screen.shows("deploy [version=v2]", "esc interrupt")
    await play.says("how is it")
    await play.screen.shows("it still takes its time", without=("QUEUED",))
    async with _asking(play) as http:
        (waiting,) = await _pending(http)
        sent = {"pendingID": waiting["id"], "result": {"output": "v2 is live"}}
        async with http.post("/async-tool/result", json=sent) as answer:
            assert answer.status == 200, await answer.text()
    await play.rests("deploy [version=v2]", "so much for the deployment")


async def the_wait_for_a_result_is_given_up(play: Play, _: OurServer) -> None:
    await play.screen.press("C-x", "n")
    await play.screen.shows("Ask anything")
    await play.says("deploy it")
    await play.screen.shows("deploy [version=v2]", "esc interrupt")
    async with _asking(play) as http:
        assert len(await _pending(http)) == 1
        await play.screen.press("Escape")
        await play.screen.shows("again to interrupt")
        await play.screen.press("Escape")
        await play.rests("deploy [version=v2]")
        assert await _pending(http) == []


def _asking(play: Play) -> ClientSession:
    return ClientSession(play.served.url, headers={"authorization": f"Bearer {play.served.token}"})


async def _pending(http: ClientSession) -> Any:
    async with http.get("/async-tool/pending") as answer:
        return await answer.json()


OWN_SCENES = (
    an_answer_goes_on_after_a_crash,
    a_result_that_comes_later_is_waited_for,
    the_wait_for_a_result_is_given_up,
)
