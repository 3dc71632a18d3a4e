"""What deploy/ and docs/postgres.md tell people to run: as far as it can be without Docker and systemd."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from configparser import ConfigParser
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from click import Context

from asyncagents.cli.main import main
from asyncagents.config.env import Environment
from asyncagents.config.file.redact import is_secret_name
from asyncagents.config.fleet import CONNECTIONS, fleet_config
from asyncagents.testing.provider import Reply
from tests.support.postgres.database import database
from tests.support.postgres.server import Server
from tests.support.process.command_line import (
    PROCESS_PATIENCE,
    PROGRAM,
    CommandResult,
    Desk,
    open_desk,
    read_until,
    wait_for_exit,
)

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOC = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"] == "asyncagents"}
INSTALLED = "/opt/asyncagents/bin/asyncagents"
WORK = "/work"
OTHER_CONNECTIONS = 2
"""Of a worker: one that listens, one for the queue."""


def check_accepted(words: list[str], folder: Path) -> dict[str, Any]:
    """What the command line understands of them; raises what it would complain of."""
    name, *given = [str(folder) if word == WORK else word for word in words]
    command = main.get_command(Context(main), name)
    assert command is not None, name
    with command.make_context(name, given) as context:
        return {"command": name, **context.params}


def seconds(text: str) -> float:
    """As Compose writes them."""
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", text)
    assert found
    assert text
    return 60 * int(found[1] or 0) + int(found[2] or 0)


def unit(path: Path) -> ConfigParser:
    found = ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]  # as mypy has it for this attribute
    found.read_string(path.read_text(encoding="utf-8"))
    return found


def example_variables() -> dict[str, str]:
    """Those that stand there, and those that one may set."""
    text = (DEPLOY / "systemd" / "asyncagents.env.example").read_text(encoding="utf-8")
    return dict(re.findall(r"^#?([A-Z_]+)=(.*)$", text, re.MULTILINE))


def environment(variables: Mapping[str, str], folder: Path) -> Environment:
    return Environment(variables=variables, home=folder, platform="linux", cwd=folder)


# Compose


@pytest.mark.spec("X-10")
def test_the_command_line_accepts_the_commands_of_compose(tmp_path: Path) -> None:
    taken = {name: check_accepted(each["command"][1:], tmp_path) for name, each in OURS.items()}

    assert {each["command"][0] for each in OURS.values()} == {"asyncagents"}
    assert {name: each["command"] for name, each in taken.items()} == {
        name: name for name in ("migrate", "serve", "worker")
    }
    assert taken["serve"]["concurrency"] == 0
    assert not taken["serve"]["no_auth"]
    assert taken["worker"]["drain"] < seconds(OURS["worker"]["stop_grace_period"])
    assert taken["serve"]["port"] == int(OURS["serve"]["ports"][0].rpartition(":")[2])


def test_compose_names_only_existing_volumes_files_and_services() -> None:
    named = {mount.partition(":")[0] for each in SERVICES.values() for mount in each.get("volumes", ())}
    assert named == set(COMPOSE["volumes"])
    assert all("/" not in each["image"] for each in SERVICES.values()), "no registry"
    for each in OURS.values():
        assert (DEPLOY / each["build"]["context"] / each["build"]["dockerfile"]).is_file()
        assert set(each["depends_on"]) <= set(SERVICES)


def test_compose_starts_the_database_then_migrate_then_the_others() -> None:
    assert OURS["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert OURS["migrate"]["restart"] == "no"
    for name in ("serve", "worker"):
        assert OURS[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert OURS[name]["healthcheck"]["test"]


def test_compose_gives_agents_neither_the_password_nor_the_token(tmp_path: Path) -> None:
    for each in OURS.values():
        variables = {name: value or "" for name, value in each["environment"].items()}
        fleet = fleet_config(environment(variables, tmp_path))
        assert fleet is not None
        assert fleet.pool == "shared"
        assert urlsplit(fleet.store).password is None
    assert is_secret_name("PGPASSWORD")
    targets = {
        name: {mount.partition(":")[2] for mount in OURS[name]["volumes"]} for name in ("serve", "worker")
    }
    assert targets["serve"] - targets["worker"] == {"/data"}
    assert targets["worker"] == {"/data/tool-output", "/data/snapshot", WORK}


def test_the_database_of_compose_is_durable_and_has_enough_connections() -> None:
    settings = dict(word.split("=") for word in SERVICES["postgres"]["command"] if "=" in word)
    assert settings["synchronous_commit"] == "on"
    assert int(settings["max_connections"]) >= 18 * (CONNECTIONS + OTHER_CONNECTIONS)
    assert "fsync" not in settings


def test_the_image_copies_existing_files_and_starts_a_command_of_ours(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}\n" in ignored, name
    [words] = re.findall(r'^CMD \["asyncagents", "(\w+)"\]$', text, re.MULTILINE)
    assert check_accepted([words], tmp_path)["command"] == "worker"
    assert all(f" {folder}" in text for folder in ("/data", "/data/tool-output", "/data/snapshot", WORK))


# systemd


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_of_ours_and_waits_for_it_to_end(path: Path, tmp_path: Path) -> None:
    service = unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    taken = check_accepted(words, tmp_path)

    assert program == INSTALLED
    assert taken["command"] in path.stem
    assert service["User"] == "asyncagents"
    assert service["EnvironmentFile"] == "/etc/asyncagents/asyncagents.env"
    assert service["NoNewPrivileges"] == "yes"
    if taken["command"] != "migrate":
        assert service["KillMode"] == "mixed"
        assert service["KillSignal"] == "SIGTERM"
        assert service["Restart"] == "always"
        assert int(service["TimeoutStopSec"]) > taken.get("drain", 6)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """Here the program is where the tests have it, and the rest is as it is installed."""
    for path in UNITS:
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8").replace(INSTALLED, PROGRAM))
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / path.name) for path in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    of_ours = [line for line in done.stderr.splitlines() if "asyncagents" in line]
    assert of_ours == [], done.stderr
    assert done.returncode == 0, done.stderr


def test_the_example_environment_file_is_valid(tmp_path: Path) -> None:
    variables = example_variables()
    fleet = fleet_config(environment(variables, tmp_path))

    assert fleet is not None
    assert fleet.pool == "shared"
    assert fleet.heartbeat_seconds == 10.0
    assert fleet.connections == CONNECTIONS
    assert urlsplit(fleet.store).password is None
    assert variables["PGPASSWORD"]


# The page


def test_the_command_line_accepts_every_command_of_the_page(tmp_path: Path) -> None:
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)).splitlines()
    commands = [line.removesuffix("&") for line in lines if line.startswith("asyncagents ")]
    taken = {check_accepted(shlex.split(line, comments=True)[1:], tmp_path)["command"] for line in commands}
    assert taken == {"worker", "serve", "run", "doctor", "migrate"}


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", DOC):
        path, _, part = link.partition("#")
        target = ROOT / "docs" / path if path else ROOT / "docs" / "postgres.md"
        assert target.exists(), link
        if part:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in titles}, (
                link
            )


def test_the_page_names_the_variables_of_the_example() -> None:
    assert set(re.findall(r"ASYNCAGENTS_[A-Z_]+", DOC)) == {
        name for name in example_variables() if name.startswith("ASYNCAGENTS_")
    }


# All of it together


@asynccontextmanager
async def started(desk: Desk, service: str, env: Mapping[str, str]) -> AsyncIterator[Process]:
    """With the command of compose, but at a port that is free."""
    words = [{WORK: str(desk.project), "5165": "0"}.get(word, word) for word in OURS[service]["command"][1:]]
    process = await desk.start(*words, env=env)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def is_healthy(desk: Desk, service: str, env: Mapping[str, str], *, port: str = "") -> bool:
    kind, *words = OURS[service]["healthcheck"]["test"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    command = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
    given = [word.replace("$$", "$").replace("5165", port) for word in command]
    variables = desk.environment({**env, "PATH": path})
    process = await asyncio.create_subprocess_exec(
        *given, cwd=desk.project, env=variables, stdout=PIPE, stderr=PIPE
    )
    return (await wait_for_exit(process)).code == 0


async def stopped(process: Process) -> CommandResult:
    process.send_signal(signal.SIGTERM)
    return await wait_for_exit(process)


@pytest.mark.spec("X-10")
async def test_the_services_of_compose_work_together(tmp_path: Path, postgres_server: Server) -> None:
    async with (
        open_desk(tmp_path, {"Who are you?": [Reply(text="A worker.")]}) as (desk, _),
        database(postgres_server) as store,
    ):
        serving = {"ASYNCAGENTS_STORE": store, "ASYNCAGENTS_POOL": "shared"}
        working = {**serving, "ASYNCAGENTS_DATA_DIR": str(tmp_path / "other")}
        made = await desk.run(*OURS["migrate"]["command"][1:], env=serving)
        async with started(desk, "serve", serving) as server:
            port = (await read_until(server, "\n")).strip().rpartition(":")[2]
            alone = await is_healthy(desk, "worker", working)
            async with started(desk, "worker", working) as worker:
                await read_until(worker, "\n")
                answer = await desk.run("run", "Who are you?", env=serving)
                healthy = [
                    await is_healthy(desk, "serve", serving, port=port),
                    await is_healthy(desk, "worker", working),
                ]
                ends = [await stopped(worker), await stopped(server)]
            left = await desk.run("doctor", "--json", env=serving)

    assert made.code == 0, made.err
    assert answer.out == "A worker.\n", answer.err
    assert answer.code == 0, answer.err
    assert not alone
    assert healthy == [True, True]
    assert [each.code for each in ends] == [0, 0], ends
    assert not any(each["name"] == "process" for each in left.json["checks"]), "both have taken their leave"
