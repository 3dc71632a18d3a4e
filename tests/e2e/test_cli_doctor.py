"""`asyncagents doctor` on tools, plugins and MCP servers: which cannot be used, and why."""

import sys
from pathlib import Path

import pytest

from tests.support.mcp.session import SERVER
from tests.support.process.command_line import CommandResult, Desk, open_desk

UNTRUSTED = {"ASYNCAGENTS_TRUST": ""}
GOOD = 'from asyncagents import tool\n\n\n@tool\ndef {name}() -> str:\n    """Do it."""\n    return "x"\n'


def put(desk: Desk, kind: str, **files: str) -> Path:
    folder = desk.project / ".asyncagents" / kind
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def lines(ran: CommandResult, name: str) -> list[tuple[str, str]]:
    return [(check["level"], check["text"]) for check in ran.json["checks"] if check["name"] == name]


@pytest.mark.spec("X-06")
async def test_doctor_names_files_of_tools_that_cannot_be_imported(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        folder = put(
            desk,
            "tools",
            fine=f"print('noise')\n{GOOD.format(name='fine')}",
            broken="import no_such_module_here\n",
            empty="",
            exits="import os\nos._exit(7)\n",
            leaves="import sys\nsys.exit(3)\n",
            hangs="import threading\nthreading.Event().wait()\n",
        )
        ran = await desk.run("doctor", "--json")
    assert ran.code == 0, ran.err
    assert lines(ran, "tools") == [
        ("ok", "fine"),
        (
            "warn",
            f"{folder}/broken.py cannot be imported: ModuleNotFoundError: No module named"
            " 'no_such_module_here'",
        ),
        ("warn", f"{folder}/empty.py has no tool: write a function and put @tool above it"),
        ("warn", f"{folder}/exits.py cannot be imported: it exited the process with code 7"),
        ("warn", f"{folder}/hangs.py cannot be imported: timed out after 10 s"),
        ("warn", f"{folder}/leaves.py cannot be imported: SystemExit: 3"),
    ]


@pytest.mark.spec("X-06", "S-02")
async def test_doctor_imports_nothing_of_a_project_that_is_not_trusted(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = f"open({str(trace)!r}, 'w').close()\n"
    async with open_desk(tmp_path) as (desk, _):
        tools = put(desk, "tools", marks=code)
        plugins = put(desk, "plugins", marks=code)
        ran = await desk.run("doctor", "--json", env=UNTRUSTED)
        untouched = not trace.exists()
        await desk.run("doctor", "--json")
    assert untouched
    assert trace.exists()
    said = "not loaded: the project is not trusted: "
    assert lines(ran, "tools") == [("warn", f"{said}{tools}/marks.py")]
    assert lines(ran, "plugins") == [("warn", f"{said}{plugins}/marks.py")]


@pytest.mark.spec("X-06")
async def test_doctor_names_plugins_that_cannot_be_imported(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        fine = "async def plugin(context):\n    raise ValueError('the doctor starts no plugin')\n"
        folder = put(desk, "plugins", fine=fine, other="x = 1\n")
        desk.configure(plugin=["no_such_package_here:plugin", "./plugin.ts"])
        ran = await desk.run("doctor", "--json")
    missing, node, *rest = lines(ran, "plugins")[1:]
    assert lines(ran, "plugins")[0] == ("ok", "can be imported: fine")
    assert "there is no module 'no_such_package_here' where this Python looks" in missing[1]
    assert "plugins that are written for Node do not run here" in node[1]
    assert rest == [
        (
            "warn",
            f"other ({folder}/other.py) has no function 'plugin': write `async def plugin(context)`",
        )
    ]


@pytest.mark.spec("X-04", "X-06")
async def test_doctor_checks_servers_and_connects_only_online(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    good = {"type": "local", "command": [sys.executable, SERVER], "environment": {"LEDGER": str(ledger)}}
    servers = {
        "bad": {"type": "local", "command": ["no-such-program-here"]},
        "far": {"type": "remote", "url": "http://127.0.0.1:1/mcp"},
        "good": good,
        "odd": {"type": "remote", "url": "https://:80/key-in-it"},
        "off": {"type": "local", "command": ["no-such-program-here"], "enabled": False},
    }
    async with open_desk(tmp_path) as (desk, _):
        desk.configure(mcp=servers)
        offline = await desk.run("doctor", "--json")
        unstarted = not ledger.exists()
        online = await desk.run("doctor", "--json", "--online")
    assert offline.code == 0, offline.err
    assert unstarted is True, offline.err
    assert lines(offline, "mcp") == [
        ("warn", "bad: its command 'no-such-program-here' is not found on PATH, or may not be run"),
        ("ok", "far: enabled, by HTTP"),
        ("ok", "good: enabled, by stdio"),
        ("warn", "odd: its url is malformed: expected http:// or https:// and a host"),
        ("ok", "off: disabled"),
    ]
    assert lines(online, "mcp") == lines(offline, "mcp")
    far, connected = lines(online, "mcp online")
    assert far[0] == "fail"
    assert far[1].startswith("far: ") is True
    assert connected == ("ok", "good: connected, 15 tools")
    assert online.code == 1
