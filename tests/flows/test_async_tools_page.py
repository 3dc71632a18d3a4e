"""docs/async-tools.md: its programs run, its webhook is accepted, and its tables leave nothing out."""

import asyncio
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import asyncagents
from asyncagents import (
    AsyncAgentsError,
    AsyncToolsConfig,
    Pending,
    ResultRefused,
    ScriptedModel,
    Secret,
    call,
    say,
)
from asyncagents.config.env import system_environment
from asyncagents.config.load import load_config
from asyncagents.config.untrusted_settings import TRUST_VARIABLE
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.conversation.status import Idle
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.webhook.delivery import HOUR, RETRY_PAUSES_MS
from asyncagents.plugins.tool.decorate import AsyncToolOptions, ToolOptions
from tests.support.page import code_blocks
from tests.support.path import DOCS
from tests.support.runtime import open_runtime

PAGE = (DOCS / "async-tools.md").read_text(encoding="utf-8")
PROGRAM, TOOL = code_blocks("async-tools.md")
SHIP = ScriptedModel({"ship": [[call("deploy", version="v2")], [say("Shipped.")]]})
PAGE_ONLY_FOR_US = {"kind", "on_due", "questions", "watch", "title", "metadata", "due", "who", "approval"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That is trusted, and has the page's tool."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    file = tmp_path / "project/.asyncagents/tools/deploy.py"
    file.parent.mkdir(parents=True)
    file.write_text(TOOL, encoding="utf-8")
    return tmp_path / "project"


async def shipping(runtime: Runtime, project: Path) -> str:
    """The id of the call that waits then."""
    session = await runtime.create_session(directory=project)
    await runtime.prompt(session.id, "ship", agent="build")
    (waiting,) = await runtime.async_tools.waiting_calls(session.id)
    return waiting.id


async def secret_of(runtime: Runtime, pending_id: str) -> str:
    (secret,) = await runtime.async_tools.secrets(pending_id)
    return secret.reveal()


@pytest.mark.spec("P-01", "P-05")
async def test_the_tool_of_the_page_waits_and_checks_its_results(project: Path, tmp_path: Path) -> None:
    async with open_runtime(tmp_path / "data", model=SHIP, coding="each directory") as runtime:
        pending_id = await shipping(runtime, project)
        waiting = await runtime.async_tools.get(pending_id)
        with pytest.raises(ResultRefused, match="no https address: None"):
            await runtime.async_tools.submit_result(pending_id, "live")
        pending_call = await runtime.async_tools.submit_result(
            pending_id, "live", metadata={"url": "https://shop.example"}
        )
        status = await runtime.wait(waiting.session_id)

    assert waiting.external_ref == "job 77"
    assert waiting.estimated_duration == 900_000
    assert pending_call.status == "completed"
    assert isinstance(status, Idle)


@pytest.mark.spec("P-04", "P-05", "X-07")
def test_the_program_of_the_page_prints_the_shown_output(project: Path, tmp_path: Path) -> None:
    (shown,) = code_blocks("async-tools.md", "text")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


@contextmanager
def listening() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A web server of somebody's that keeps what is posted, as it came."""
    posted: list[tuple[dict[str, str], bytes]] = []

    class Keeps(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posted.append((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Keeps) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", posted
        server.shutdown()
        thread.join()


@pytest.mark.spec("P-06")
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="needs curl and openssl")
async def test_a_result_signed_and_posted_by_the_shell_script_is_accepted(
    project: Path, tmp_path: Path
) -> None:
    (_, script) = code_blocks("async-tools.md", "sh")
    async with open_runtime(tmp_path / "data", model=SHIP, coding="each directory") as runtime:
        pending_id = await shipping(runtime, project)
        secret = await secret_of(runtime, pending_id)
        with listening() as (url, posted):
            known = {**system_environment().variables, "ID": pending_id, "SECRET": secret, "URL": url}
            shell = await asyncio.create_subprocess_exec("sh", "-euc", script, env=known)
            assert await shell.wait() == 0
        ((headers, body),) = posted
        pending_call = await runtime.async_tools.receive(headers, body)

    assert pending_call.status == "completed"
    assert (pending_call.result and pending_call.result.output) == "v2 is live"


def test_the_settings_of_the_page_are_loaded_as_documented(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings,) = code_blocks("async-tools.md", "jsonc")
    (project / "asyncagents.jsonc").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("DEPLOY_SECRET", "new")
    monkeypatch.setenv("DEPLOY_SECRET_OLD", "old")
    loaded = load_config(system_environment(), directory=project)
    assert loaded.warnings == ()
    assert loaded.config.async_tools == AsyncToolsConfig(
        url="https://agents.example", secrets=(Secret("new"), Secret("old"))
    )


def test_the_page_names_every_option_field_and_state() -> None:
    options = get_type_hints(AsyncToolOptions).keys() - get_type_hints(ToolOptions).keys()
    fields = set(Pending.__struct_fields__) - PAGE_ONLY_FOR_US
    (offered,) = (line for line in PAGE.splitlines() if line.startswith("| `Pending("))
    assert [name for name in options if f"| `{name}` |" not in PAGE] == []
    assert [name for name in fields if name not in offered] == []
    assert [state for state in get_args(PendingStatus) if f"`{state}`" not in PAGE] == []


def test_the_retry_figures_of_the_page_match_the_code() -> None:
    assert "ten tries are made in three days" in " ".join(PAGE.split())
    assert 1 + len(RETRY_PAUSES_MS) == 10
    assert sum(RETRY_PAUSES_MS) // (24 * HOUR) == 3


def test_every_error_of_the_page_is_an_exported_exception() -> None:
    table = PAGE.split("## Which results are accepted")[1].split("## Deadlines")[0]
    named = re.findall(r"`([A-Z]\w+)`", table)
    assert len(named) == 6
    assert [name for name in named if not issubclass(getattr(asyncagents, name), AsyncAgentsError)] == []
