"""What a program tells the terminals that look at a directory."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.server.opencode.tui import _COMMAND_ROUTES
from tests.support.http.server import StageClient, serve_stage


@pytest.mark.spec("X-01")
async def test_posts_of_programs_reach_a_terminal_as_events(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, {}) as at:
        heard = await told(
            at,
            [
                ("/tui/append-prompt", {"text": "hi", "more": 1}),
                ("/tui/execute-command", {"command": "session_new"}),
                ("/tui/execute-command", {"command": "prompt.clear"}),
                ("/tui/show-toast", {"message": "m", "variant": "info", "duration": 5}),
                ("/tui/select-session", {"sessionID": at.stage.session_id}),
                ("/tui/publish", {"type": "tui.prompt.append", "properties": {"text": "x"}}),
                *((path, None) for path in _COMMAND_ROUTES),
            ],
        )

    assert heard[:6] == [
        ("tui.prompt.append", {"text": "hi"}),
        ("tui.command.execute", {"command": "session.new"}),
        ("tui.command.execute", {"command": "prompt.clear"}),
        ("tui.toast.show", {"message": "m", "variant": "info", "duration": 5}),
        ("tui.session.select", {"sessionID": at.stage.session_id}),
        ("tui.prompt.append", {"text": "x"}),
    ]
    assert heard[6:] == [("tui.command.execute", {"command": each}) for each in _COMMAND_ROUTES.values()]


async def told(at: StageClient, posts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What a terminal hears of them."""
    async with at.stream("/event") as listener:
        first = await listener.next()
        assert first is not None
        heard = []
        for path, body in posts:
            answer = await at.post(path, body)
            assert answer.status == 200, (path, answer)
            assert answer.json is True, (path, answer)
            while True:
                frame = await listener.next()
                assert frame is not None
                if frame.data["type"].startswith("tui."):
                    heard.append((frame.data["type"], frame.data["properties"]))
                    break
        return heard


async def test_an_invalid_post_for_a_terminal_is_refused(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, {}) as at:
        bad = [
            await at.post("/tui/append-prompt", {}),
            await at.post("/tui/show-toast", {"message": "m", "variant": "loud"}),
            await at.post("/tui/show-toast", {"message": "m", "variant": "info", "duration": 0}),
            await at.post("/tui/publish", {"type": "tui.other", "properties": {}}),
            await at.post("/tui/publish", {"type": "tui.toast.show", "properties": {}}),
        ]
        gone = await at.post("/tui/select-session", {"sessionID": "ses_none"})

    assert [each.status for each in bad] == [400] * 5
    assert gone.status == 404
