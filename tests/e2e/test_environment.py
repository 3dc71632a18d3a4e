"""What a command finds of the environment that our processes were started with: nothing secret."""

import os
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.http.opencode import tool_outputs
from tests.support.process.command_line import Desk, open_desk, wait_for_exit
from tests.support.process.server import open_server_process

_NAMES = """
OPENAI_API_KEY ANTHROPIC_API_KEY AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ACCESS_KEY_ID GITHUB_TOKEN
GH_TOKEN PGPASSWORD NPM_TOKEN HF_TOKEN MY_CREDENTIALS VAULT_TOKEN AZURE_CLIENT_SECRET GITLAB_PAT
OPENCODE_SERVER_PASSWORD DB_PASS MYSQL_PWD ADMIN_PWD STRIPE_SK JWT CI_JOB_JWT SIGNING_PRIVATE MY_CRED
ENCRYPTION_SALT SESSIONID DOCKER_AUTH_CONFIG OTEL_EXPORTER_OTLP_HEADERS SENTRY_DSN SLACK_WEBHOOK_URL
TF_VAR_db_pass SSH_AUTH_SOCK KUBECONFIG_DATA NETRC_LINE COMPOSER_AUTH BUNDLE_GEMS__EXAMPLE__COM LC_PASS
XDG_LOGIN npm_config__auth
"""
NAMES = _NAMES.split()
URLS = {
    "DATABASE_URL": "postgres://u:{}@h/d",
    "REDIS_URL": "redis://:{}@h",
    "MONGO_URI": "mongodb://u:{}@h",
    "HTTPS_PROXY": "http://u:{}@127.0.0.1:9",
    "http_proxy": "http://{}@127.0.0.1:9",
    "ALL_PROXY": "u:{}@127.0.0.1:9",
    "PIP_INDEX_URL": "https://u:{}@h/simple",
    "GOPROXY": "https://u:{}@h,direct",
}
KEY = "sk-of-the-desk"
# Every process that may be asked, the server, the keeper and the command itself among them.
PEEK = """
import glob, re, sys
found, seen = set(), 0
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/task/*/environ'):
    try:
        data = open(path, 'rb').read()
    except OSError:
        continue
    seen += 1
    found.update(re.findall(rb'CANARY_TAG_\\w+', data))
print('seen', seen, sorted(each.decode() for each in found))
"""
LIST = ToolUse("bash", {"command": "env; echo listed"})
LOOK = ToolUse(
    "bash", {"command": f"{sys.executable} peek.py; echo looked; tr '\\0' '\\n' < /proc/$PPID/environ"}
)
SCRIPT: Script = {
    "Tell me": [Reply(text="", tools=(LIST,)), Reply(text="", tools=(LOOK,)), Reply(text="Done.")]
}


def tag(desk: Desk) -> str:
    """Of this test alone: others plant the same at the same time."""
    return f"{zlib.crc32(str(desk.home).encode()):08x}"


def canaries(desk: Desk) -> dict[str, str]:
    return {name: URLS.get(name, "{}").format(f"CANARY_{tag(desk)}_{name}") for name in (*NAMES, *URLS)}


def prepare(desk: Desk, **more: Any) -> None:
    desk.configure(
        permission={"*": "allow", "unclear_command": "allow", "external_directory": "allow"}, **more
    )
    (desk.project / "peek.py").write_text(PEEK.replace("TAG", tag(desk)))


def secrets(desk: Desk, texts: list[str]) -> set[str]:
    """What of the planted was found, by name."""
    assert len(texts) == 2, texts
    listed, looked = texts
    assert "PATH=" in listed
    assert "listed" in listed
    assert re.search(r"seen [1-9]", looked), looked
    assert "looked" in looked
    assert KEY not in listed + looked
    return set(re.findall(rf"CANARY_{tag(desk)}_(\w+)", listed + looked))


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")
async def test_a_command_of_a_run_finds_no_secret(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk)
        ran = await wait_for_exit(await desk.start("run", "Tell me", env=canaries(desk)))
        shown = await desk.run("show", "--json")
    assert ran.code == 0, ran.err
    assert secrets(desk, tool_outputs(shown.json)) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")
async def test_a_command_of_a_server_finds_no_secret(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk)
        async with open_server_process(desk, "--port", "0", env=canaries(desk)) as server:
            shown = read_environment(server.process.pid)
            caller = server.client
            made = await caller.request("POST", "/session", body={}, headers=caller.authorization)
            at = f"/session/{made.json['id']}/message"
            parts = [{"type": "text", "text": "Tell me"}]
            told = await caller.request("POST", at, body={"parts": parts}, headers=caller.authorization)
            assert told.status == 200, told
            messages = await caller.request("GET", at, headers=caller.authorization)
    assert secrets(desk, tool_outputs(messages.json)) == set()
    assert shown.strip("\0") == ""


def read_environment(pid: int) -> str:
    """As a program of the same user reads it: not at all, unless it is root."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode()
    except PermissionError:
        assert os.geteuid() != 0
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")
async def test_variables_named_by_the_user_are_passed_on_except_keys(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk, pass_environment=["DATABASE_URL", "MYAPP_*", "DESK_KEY"])
        mine = {name: f"CANARY_{tag(desk)}_{name}" for name in ("MYAPP_MODE", "MYAPP_TOKEN")}
        ran = await wait_for_exit(await desk.start("run", "Tell me", env={**canaries(desk), **mine}))
        shown = await desk.run("show", "--json")
    assert ran.code == 0, ran.err
    assert secrets(desk, tool_outputs(shown.json)) == {"DATABASE_URL", "MYAPP_MODE"}
