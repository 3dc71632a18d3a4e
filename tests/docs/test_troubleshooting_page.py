"""docs/troubleshooting.md quotes messages as they are printed, and explains every word for a state."""

import asyncio
import json
import re
import shlex
import shutil
import sqlite3
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias, get_args

import click
import pytest

from asyncagents.cli.doctor.report import Level
from asyncagents.cli.inspect.read_task_tree import STATES
from asyncagents.cli.inspect.sessions import StatusWord
from asyncagents.cli.main import COMMANDS, main
from asyncagents.cli.run.result import RunStatus
from asyncagents.domain.call.call import IN_DOUBT
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.call.webhook import DeliveryState
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.task.task import LIVE, EndedBy, TaskStatus
from asyncagents.domain.why import WhyCode
from asyncagents.testing.provider import Provider, Reply, ToolUse
from tests.support.fenced_block import Block, read_blocks
from tests.support.path import DOCS
from tests.support.process.command_line import PROCESS_PATIENCE, PROGRAM, Desk, open_desk, wait_for_exit
from tests.support.process.server import hold_ports, open_server_process

NAME = "docs/troubleshooting.md"
PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1"
ID = re.compile(r"\b(ses|per)_[0-9A-Za-z]{10,}")
NUMBER = re.compile(r"(?<=in )\d+(?= s: )|(?<=take about )\d+|(?<=this one knows )\d+")
"""Numbers that are drawn, or that change with prompts and migrations."""

DEPLOY = ToolUse("bash", {"command": "make deploy", "description": "Deploys"})
SCRIPT = {
    "Unknown": [Reply(status=404, error="model 'm' not found")],
    "Often": [
        Reply(status=429, error="Rate limit reached for requests", headers={"retry-after-ms": "1"}, times=9)
    ],
    "Long": [Reply(status=400, error="This model's maximum context length is 4096 tokens.")],
    "Deploy it.": [Reply(text="", tools=(DEPLOY,))],
    "Write the report.": [Reply(hang_at=-1)],
}

Cause: TypeAlias = Callable[[Desk, Provider], Awaitable[str]]


def run(*words: str, config: dict[str, Any] | str | None = None, **env: str) -> Cause:
    """Make a cause that is one command, in a project whose configuration is the text, or has these keys."""

    async def produce(desk: Desk, provider: Provider) -> str:
        if isinstance(config, str):
            (desk.project / "asyncagents.json").write_text(config)
        elif config is not None:
            desk.configure(**config)
        return (await desk.run(*words, env=env)).err

    return produce


async def call_without_path(desk: Desk, provider: Provider) -> str:
    """Let a shell search a PATH without the command; one without a terminal also warns of that."""
    ran = await wait_for_exit(
        await asyncio.create_subprocess_exec(
            *(str(shutil.which("bash")), "--norc", "-i", "-c", "asyncagents run Hello"),
            env={"PATH": "/nowhere"},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    )
    return "".join(f"{line}\n" for line in ran.err.splitlines() if "asyncagents" in line)


def run_without(package: str, config: dict[str, Any] | None, *words: str, **env: str) -> Cause:
    """Make a cause in which a package is not installed: one of this name, found first, says so.

    Without a configuration the project has an empty one.
    """

    async def produce(desk: Desk, provider: Provider) -> str:
        folder = desk.home / "packages"
        folder.mkdir()
        missing = f"No module named {package!r}"
        (folder / f"{package}.py").write_text(f"raise ModuleNotFoundError({missing!r}, name={package!r})\n")
        if config is None:
            (desk.project / "asyncagents.json").write_text("{}")
        else:
            desk.configure(**config)
        path = f"{folder}:{desk.environment({}).get('PYTHONPATH', '')}"
        return (await wait_for_exit(await desk.start(*words, env={"PYTHONPATH": path, **env}))).err

    return produce


async def ask_dead_model_server(desk: Desk, provider: Provider) -> str:
    with hold_ports(0) as port:
        desk.configure(provider=_local(url=f"{URL}:{port}/v1"))
        ran = await desk.run("run", "Hello")
    return ran.err.replace(f":{port}", ":11434")


async def ask_small_model(desk: Desk, provider: Provider) -> str:
    desk.configure(provider=_local(url=f"{provider.url}/v1", limit={"context": 4096}))
    return (await desk.run("run", "Long")).err


def _local(url: str, **model: Any) -> dict[str, Any]:
    options = {"baseURL": url, "apiKey": "{env:DESK_KEY}"}
    return {"local": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": model}}}


async def explain_killed_run(desk: Desk, provider: Provider) -> str:
    process = await desk.start("run", "Write the report.")
    await provider.wait_requests(1)
    process.kill()
    await wait_for_exit(process)
    [session] = (await desk.run("sessions", "--json")).json
    return (await desk.run("why", session["id"])).out


async def explain_detached_prompt(desk: Desk, provider: Provider) -> str:
    session_id = (await desk.run("run", "--detach", "Write the report.")).out.strip()
    async with asyncio.timeout(PROCESS_PATIENCE):
        while "no_worker" not in (why := (await desk.run("why", session_id)).out):
            assert "ready" in why
    return why


async def serve_at_port_in_use(desk: Desk, provider: Provider) -> str:
    with hold_ports(1) as port:
        async with open_server_process(desk, "--port", str(port)) as server:
            server.process.kill()
            warned = (await wait_for_exit(server.process)).err
    return warned.replace(str(port), "5165").replace(str(port + 1), "5166")


async def serve_twice(desk: Desk, provider: Provider) -> str:
    async with open_server_process(desk, "--port", "0") as server:
        second = await desk.run("serve", "--port", "0")
    return second.err.replace(server.listing.url, f"{URL}:5165")


async def request_without_token(desk: Desk, provider: Provider) -> str:
    async with open_server_process(desk, "--port", "0") as server:
        response = await server.client.request("GET", "/session")
    assert response.status == 401
    return f"{response.text}\n"


async def attach_without_token(desk: Desk, provider: Provider) -> str:
    async with open_server_process(desk, "--port", "0") as server:
        url, other = server.listing.url, str(desk.home / "other-data")
        ran = await desk.run("run", "--attach", url, "--data-dir", other, "Hello")
    return ran.err.replace(url, f"{URL}:5165")


async def attach_to_no_server(desk: Desk, provider: Provider) -> str:
    with hold_ports(0) as port:
        ran = await desk.run("run", "--attach", f"{URL}:{port}", "Hello")
    return ran.err.replace(f":{port}", ":5165")


async def open_newer_database(desk: Desk, provider: Provider) -> str:
    await desk.run("run", "Hello")
    with closing(sqlite3.connect(desk.data / "asyncagents.db")) as connection:
        connection.execute("UPDATE schema SET version = 99, min_reader = 99")
        connection.commit()
    return (await desk.run("run", "Hello")).err


def run_on_disk(options: str, before: str = "true") -> Cause:
    """Make a cause whose data directory is a disk of its own, in a mount namespace of its own."""

    async def produce(desk: Desk, provider: Provider) -> str:
        desk.data.mkdir()
        if not await _execute_on_disk(desk, options, "true"):
            pytest.skip("no disk of its own may be mounted here")
        return await _execute_on_disk(desk, options, f'{before}; "$1" run Hello >&2') or ""

    return produce


async def _execute_on_disk(desk: Desk, options: str, command: str) -> str | None:
    """Return what the command prints to stderr after `mounted`; None if no disk could be mounted."""
    if shutil.which("unshare") is None:
        return None
    shell = f'mount -t tmpfs -o {options} tmpfs "$0" && echo mounted >&2 && {{ {command}; }}'
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell, str(desk.data), PROGRAM),
        cwd=desk.project,
        env=desk.environment({}),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    _, mounted, after = (await wait_for_exit(process)).err.rpartition("mounted\n")
    return after or mounted or None


BROKEN = '{\n  "model": "local/m"\n  "permission": {"edit": "ask"}\n}\n'
NOTES = {"mcp": {"notes": {"type": "local", "command": ["notes-server"]}}}
CORP = json.dumps({"model": "corp/m", "provider": {"corp": _local("http://corp.invalid/v1")["local"]}})
FILL_NEW = 'cat /dev/zero 2>/dev/null >"$0/other"'
FILL = f'"$1" run Hello >/dev/null 2>&1; {FILL_NEW}'
NEARLY_FILL = f'{FILL}; truncate -s -48K "$0/other"'

CAUSES: dict[str, list[Cause]] = {
    "Command not found": [call_without_path],
    "A package is missing": [
        run_without("mcp", NOTES, "run", "Hello"),
        run_without("asyncpg", {}, "sessions", ASYNCAGENTS_STORE="postgresql://a@127.0.0.1:1/a"),
    ],
    "No key": [
        run("run", "Hello", config="{}"),
        run("run", "Hello", "-m", "openai/gpt-4o", config="{}"),
        run_without("google", None, "run", "Hello", GEMINI_API_KEY="k"),
    ],
    "Unknown model": [run("run", "Hello", "-m", "gpt-4o"), run("run", "Unknown")],
    "Unknown provider": [run("run", "Hello", "-m", "corp/m")],
    "The key is refused": [run("run", "Hello", DESK_KEY="sk-old")],
    "The model server does not run": [ask_dead_model_server],
    "Rate limit": [run("run", "Often")],
    "The context is too small": [ask_small_model],
    "Invalid JSON": [run("run", "Hello", config=BROKEN)],
    "Unknown key in a file": [run("run", "Hello", config={"modle": "local/m"})],
    "The project is not trusted": [run("run", "Hello", config=CORP, ASYNCAGENTS_TRUST="")],
    "Unknown agent": [run("run", "Hello", "--agent", "reviewer")],
    "No prompt": [run("run")],
    "Unknown session": [run("run", "--session", "ses_x", "Hello")],
    "A question without a terminal": [run("run", "Deploy it.", config={"permission": {"bash": "ask"}})],
    "The process was killed": [explain_killed_run, explain_detached_prompt],
    "The port is in use": [serve_at_port_in_use],
    "A second server": [serve_twice],
    "No token": [request_without_token, attach_without_token],
    "No server at this address": [attach_to_no_server],
    "The database is too new": [open_newer_database],
    "The disk is full": [
        run_on_disk("size=8m", NEARLY_FILL),
        run_on_disk("size=8m", FILL),
        run_on_disk("size=8m", FILL_NEW),
    ],
    "The data directory is read-only": [run_on_disk("ro")],
}
"""For each heading: what leads to the messages below it, in their order."""


def section(title: str) -> str:
    """Return the text below a heading, up to the next one of its level or above."""
    (level, text), *_ = re.findall(rf"^(##+) {re.escape(title)}\n(.*)\Z", PAGE, re.MULTILINE | re.DOTALL)
    return re.split(rf"^#{{2,{len(level)}}} ", text, flags=re.MULTILINE)[0]


def quoted_messages(title: str) -> list[str]:
    text = section(title)
    return [block.text for block in read_blocks(NAME) if block.language == "text" and block.text in text]


def without_numbers(text: str) -> str:
    """Return a text without ids, and without numbers that differ from run to run."""
    return NUMBER.sub("0", ID.sub(r"\1_", text))


def as_on_page(text: str, desk: Desk, provider: Provider) -> str:
    """Replace the folders and the provider of the test by those of the page."""
    for real, shown in (
        (str(desk.data), "/home/ada/.local/share/asyncagents"),
        (str(desk.project), "/home/ada/shop"),
        (provider.url, f"{URL}:11434"),
    ):
        text = text.replace(real, shown)
    return text


QUOTES = [
    pytest.param(title, number, id=f"{title} {number + 1}")
    for title, causes in CAUSES.items()
    for number in range(len(causes))
]


@pytest.mark.slow
@pytest.mark.parametrize(("title", "number"), QUOTES)
async def test_a_message_is_printed_as_the_page_quotes_it(title: str, number: int, tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, provider):
        printed = as_on_page(await CAUSES[title][number](desk, provider), desk, provider)
    assert without_numbers(printed) == without_numbers(quoted_messages(title)[number])


def test_every_heading_has_as_many_causes_as_messages_and_a_command() -> None:
    headings = re.findall(r"^### (.*)$", section("Messages"), re.MULTILINE)
    assert headings == list(CAUSES)
    assert {title: len(quoted_messages(title)) for title in CAUSES} == {
        title: len(causes) for title, causes in CAUSES.items()
    }
    assert [title for title in CAUSES if "```sh excerpt\n" not in section(title)] == []


def test_the_list_of_messages_links_to_every_heading() -> None:
    slugs = [title.lower().replace(" ", "-") for title in CAUSES]
    listed, _, _ = section("Messages").partition("### ")
    assert re.findall(r"\]\(#([^)]+)\)", listed) == slugs


@pytest.mark.slow
async def test_the_first_commands_of_the_page_run(tmp_path: Path) -> None:
    block: Block = read_blocks(NAME)[0]
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        session_id = (await desk.run("run", "--detach", "Hello")).out.strip()
        lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
        ran = [await desk.run(*[session_id if word == "ID" else word for word in line[1:]]) for line in lines]
    assert [line[1] for line in lines] == ["doctor", "sessions", "why"]
    assert [each.code for each in ran] == [0, 0, 0]


def test_every_command_of_the_page_exists_with_its_options() -> None:
    found = re.findall(r"(?:^|`)asyncagents ([a-z]+)([^`\n#]*)", PAGE, re.MULTILINE)
    assert len(found) > 50
    context = click.Context(main)
    for name, rest in found:
        assert name in COMMANDS
        command = main.get_command(context, name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options


# The states.


STATUS_TAGS = {str(kind.__struct_config__.tag) for kind in get_args(Status)}
WORDS: dict[str, set[str]] = {
    "why": set(get_args(WhyCode)),
    "sessions": set(get_args(StatusWord)),
    "--json": STATUS_TAGS - set(get_args(StatusWord)),
    "tasks": (set(get_args(WhyCode)) - set(STATES))
    | set(STATES.values())
    | (set(get_args(TaskStatus)) - LIVE),
    "task --json": set(LIVE),
    "pending": set(get_args(PendingStatus)),
    "webhooks": set(get_args(DeliveryState)),
    "run --json": set(get_args(RunStatus)),
    "doctor": set(get_args(Level)),
}
"""For each command: the words that it prints for a state."""


def state_rows() -> dict[str, list[str]]:
    """Return the cells of the row of each word; `cancelled by user` is no word, `cancelled` is one."""
    rows = [line.strip("|").split(" | ") for line in section("States").splitlines() if line.startswith("| `")]
    assert all(len(cells) in (3, 4) for cells in rows)
    words = [(word, cells) for cells in rows for word in re.findall(r"`(\w+)`", cells[0])]
    assert len(dict(words)) == len(words), "a word has two rows"
    return dict(words)


def test_every_word_for_a_state_has_a_row_and_no_other_word_has() -> None:
    assert set(state_rows()) == set().union(*WORDS.values())


@pytest.mark.parametrize("command", WORDS)
def test_the_row_of_a_word_names_the_commands_that_print_it(command: str) -> None:
    rows = state_rows()
    assert [word for word in sorted(WORDS[command]) if f"`{command}`" not in rows[word][1]] == []


def test_the_row_of_a_cancelled_task_names_everything_that_may_have_ended_it() -> None:
    assert {word for word in get_args(EndedBy) if f"`{word}`" not in state_rows()["cancelled"][2]} == set()


def test_the_page_has_the_text_of_a_call_that_is_in_doubt() -> None:
    assert f"`{IN_DOUBT.partition(' Check')[0]}`" in section("States")
