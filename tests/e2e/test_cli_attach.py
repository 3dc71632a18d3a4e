"""`run` and a server: the work is done there, and shown here."""

import asyncio
import json
import signal
from pathlib import Path

from asyncagents import SessionId
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import (
    Desk,
    build_slow_replies,
    open_desk,
    open_terminal,
    read_until,
    wait_for_exit,
)
from tests.support.process.script import (
    ASK_EDITS,
    PERMISSION_PROMPT,
    read_project_file,
    script_steps,
    write_use,
)
from tests.support.process.server import DeskServer, open_desk_server

ELSEWHERE = ("--data-dir", "elsewhere")
"""Other data than the server's: it is a stranger then."""


def stranger(desk: Desk, server: DeskServer) -> tuple[tuple[str, ...], dict[str, str]]:
    """What it takes to reach a server that is not of this data."""
    token = (desk.data / "token").read_text().strip()
    return ("--attach", server.url, *ELSEWHERE), {"ASYNCAGENTS_TOKEN": token}


async def only_session(desk: Desk) -> SessionId:
    (session,) = (await desk.run("sessions", "--all", "--json")).json
    return SessionId(session["id"])


async def test_a_run_works_in_the_server_of_its_data(tmp_path: Path) -> None:
    script = {"go": [Reply(text="", tools=(write_use("a.txt", "1\n"),)), Reply(text="Done there.")]}
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission={"edit": "allow"})
        async with open_desk_server(desk) as server:
            ran = await desk.run("run", "go")
            again = await desk.run("run", "--continue", "--json")

    assert ran.code == 0
    assert ran.out == "Done there.\n"
    assert (
        ran.err
        == f"working in the server at {server.url}\nwrite a.txt +1 -0\n  a.txt\n  @@ -0,0 +1,1 @@\n  +1\n"
    )
    assert again.code == 0
    assert again.json["text"] == "Done there."
    assert again.json["status"] == "done"


async def test_the_formats_and_a_detached_run_are_as_without_a_server(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path, {"go": [Reply(text="One two.", chunks=2)]}) as (desk, _),
        open_desk_server(desk),
    ):
        whole = await desk.run("run", "go", "--json")
        lines = await desk.run("run", "go", "--format", "stream-json")
        left = await desk.run("run", "go", "--detach")
        shown = await desk.run("run", "--session", left.out.strip())

    assert whole.code == 0
    assert whole.json["text"] == "One two."
    assert whole.err == ""
    events = [json.loads(line) for line in lines.out.splitlines()]
    assert events[-1]["type"] == "result"
    assert events[-1]["text"] == "One two."
    assert {"session.updated", "message.updated", "session.idle"} <= {each["type"] for each in events}
    assert left.code == 0
    assert left.err.count("runs it") == 1
    assert shown.code == 0
    assert shown.out == "One two.\n"


async def test_text_streams_from_the_server_and_ctrl_c_cancels_the_turn_there(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, provider),
        open_desk_server(desk),
    ):
        run = await desk.start("run", "go")
        await read_until(run, "one two")
        run.send_signal(signal.SIGINT)
        ran = await wait_for_exit(run)
        why = await desk.run("why", await only_session(desk), "--json")

    assert ran.code == 5
    assert why.json["code"] == "aborted"
    assert "cancelling; Ctrl-C again quits at once" in ran.err
    assert provider.disconnects == 1


async def test_sigterm_ends_the_attached_run_and_not_the_session(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, _),
        open_desk_server(desk) as server,
    ):
        run = await desk.start("run", "go")
        await read_until(run, "one two")
        run.send_signal(signal.SIGTERM)
        ran = await wait_for_exit(run)
        why = await desk.run("why", await only_session(desk), "--json")

    assert ran.code == 143
    assert why.json["code"] == "working"
    assert f"stopped: the server at {server.url} continues; " in ran.err


async def test_asks_of_the_server_are_answered_at_the_terminal_of_the_run(tmp_path: Path) -> None:
    async with open_desk(
        tmp_path, script_steps(write_use("a.txt", "one\n"), write_use("b.txt", "two\n"))
    ) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with (
            open_desk_server(desk),
            open_terminal(desk, "run", "go", env={"NO_COLOR": "1"}) as terminal,
        ):
            await terminal.answer("y", to=PERMISSION_PROMPT)
            await terminal.answer("n", to=PERMISSION_PROMPT)
            await terminal.answer("not that one", to="ends its turn > ")
            code = await terminal.end()
        made = [read_project_file(desk, "a.txt"), read_project_file(desk, "b.txt")]

    assert code == 0
    assert made == ["one\n", None]
    assert "write asks for the permission 'edit': a.txt\n" in terminal.text
    assert "Done." in terminal.text


async def test_a_server_of_other_data_gets_the_token_and_the_content_of_files(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"more": [Reply(text="More.")]}) as (desk, provider):
        note = tmp_path / "note.txt"
        note.write_text("from afar\n")
        async with open_desk_server(desk) as server:
            words, token = stranger(desk, server)
            refused = await desk.run("run", "go", *words)
            ran = await desk.run("run", "go", "--file", str(note), *words, env=token)
            more = await desk.run("run", "more", "--continue", *words, env=token)
            session_id = await only_session(desk)

    assert refused.code == 2
    assert refused.out == ""
    assert "give its token as --token, or in ASYNCAGENTS_TOKEN" in refused.err
    assert ran.code == 0
    assert ran.out == "ok\n"
    assert '<file name=\\"note.txt\\">\\nfrom afar\\n' in json.dumps(provider.requests[0].body)
    assert more.code == 0
    assert more.out == "More.\n"
    assert session_id[:4] == "ses_"
    assert not (desk.project / "elsewhere").exists()


async def test_a_run_that_waits_at_a_server_of_other_data_hints_at_attach(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "one\n"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_desk_server(desk) as server:
            words, token = stranger(desk, server)
            ran = await desk.run("run", "go", *words, env=token)
            session_id = await only_session(desk)

    assert ran.code == 3
    assert (
        f"hint: `asyncagents run --attach {server.url} --session {session_id}` at a terminal asks" in ran.err
    )


async def test_attaching_to_a_missing_server_is_an_error(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        nobody = await desk.run("run", "go", "--attach", "http://127.0.0.1:9")
        stranger = await desk.run("run", "go", "--attach", provider.url)

    assert nobody.code == 1
    assert stranger.code == 1
    assert "error: no asyncagents server answers at http://127.0.0.1:9" in nobody.err
    assert f"error: no asyncagents server answers at {provider.url}" in stranger.err


async def test_the_refusal_of_a_host_name_by_the_server_is_printed(tmp_path: Path) -> None:
    body = b'{"name": "ForbiddenError", "data": {"message": "another name; --allow-host"}}'
    answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with open_desk(tmp_path) as (desk, _), await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ran = await desk.run("run", "go", "--attach", url)

    assert ran.code == 2
    assert ran.err == f"error: the server at {url} refuses: another name; --allow-host\n"


async def test_a_session_that_is_deleted_there_ends_the_run(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, _),
        open_desk_server(desk),
    ):
        run = await desk.start("run", "go")
        await read_until(run, "one two")
        session_id = await only_session(desk)
        async with desk.look() as runtime:
            await runtime.delete_session(session_id)
        ran = await wait_for_exit(run)

    assert ran.code == 1
    assert f"error: session {session_id} was deleted during the run" in ran.err


async def test_unknown_models_agents_and_sessions_are_errors_of_the_server(tmp_path: Path) -> None:
    cases = {
        ("--model", "local/unheard-of"): "unheard-of",
        ("--agent", "nobody"): "nobody",
        ("--model", "nonsense"): "nonsense",
        ("--session", "../../v1/health"): "no session with id",
    }
    async with open_desk(tmp_path) as (desk, provider), open_desk_server(desk):
        rans = [(await desk.run("run", "go", *words), told) for words, told in cases.items()]

    assert provider.asked == 0
    for ran, told in rans:
        assert ran.code in {1, 2}
        assert told in ran.err
        assert "bug" not in ran.err


async def test_a_subagent_gets_a_prompt_as_a_task_with_a_server_and_without(tmp_path: Path) -> None:
    script = {"count": [Reply(text="412 modules")]}
    async with open_desk(tmp_path, script) as (desk, _):
        alone = await desk.run("run", "--agent", "general", "count")
        async with open_desk_server(desk):
            served = await desk.run("run", "--agent", "general", "count")

    for ran in (alone, served):
        assert ran.code == 0
        assert 'task "count" (general) completed' in ran.err


async def test_a_session_uses_the_model_of_its_own_directory(tmp_path: Path) -> None:
    """Not with that of the directory where the server was started; what it does not know it refuses."""
    other, unknown = tmp_path / "other", tmp_path / "unknown"
    for folder, model in ((other, "local/other"), (unknown, "elsewhere/m")):
        folder.mkdir()
        (folder / "asyncagents.json").write_text(json.dumps({"model": model}))
    async with open_desk(tmp_path) as (desk, provider), open_desk_server(desk):
        ran = [await desk.run("run", "hello", *words) for words in ((), ("-C", str(other)))]
        more = await desk.run("run", "--continue", "more", "-C", str(other))
        refused = await desk.run("run", "hello", "-C", str(unknown))

    assert [each.code for each in (*ran, more, refused)] == [0, 0, 0, 2]
    assert [each.body["model"] for each in provider.requests] == ["m", "other", "other"]
    assert "there is no provider 'elsewhere'" in refused.err


async def test_a_run_goes_on_with_a_server_that_was_killed_and_came_back(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, provider):
        async with open_desk_server(desk) as server:
            run = await desk.start("run", "go", "--json")
            await provider.wait_for(lambda: provider.active == 1)
            await server.end(signal.SIGKILL)
        async with open_desk_server(desk) as second:
            ran = await wait_for_exit(run)

    assert ran.code == 0
    assert ran.json["text"] == "one two three four"
    assert second.url != server.url


async def test_a_lost_server_is_an_error_that_names_the_next_command(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, _):
        async with open_desk_server(desk) as server:
            run = await desk.start("run", "go")
            await read_until(run, "one two")
            await server.end(signal.SIGTERM)
            ran = await wait_for_exit(run)
        session_id = await only_session(desk)
        after = await desk.run("run", "--session", session_id)

    assert ran.code == 1
    assert "waiting for it to come back" in ran.err
    assert f"error: the server at {server.url} is lost" in ran.err
    assert f"`asyncagents run --session {session_id}` continues it" in ran.err
    assert after.code == 0
    assert after.out == "one two three four\n"
