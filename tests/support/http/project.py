"""A server that reads the files of each directory, as `serve` has it, with a home of its own."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout
from msgspec import Struct
from yarl import URL

from asyncagents.app.runtime import open_runtime
from asyncagents.config.env import system_environment
from asyncagents.config.load import load_config
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.wait import PATIENCE

SECRET_KEY = "sk-this-key-must-never-be-told"
PROVIDERS: dict[str, Any] = {
    "enabled_providers": ["fake"],
    "model": "fake/fake",
    "provider": {
        "fake": {
            "name": "Fake",
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "baseURL": "http://127.0.0.1:9/v1",
                "apiKey": SECRET_KEY,
                "headers": {"X-Door": SECRET_KEY},
                "secret": SECRET_KEY,
            },
            "models": {
                "fake": {
                    "name": "Fake model",
                    "tool_call": True,
                    "cost": {"input": 1, "output": 2},
                    "limit": {"context": 200_000, "output": 8_192},
                    "headers": {"X-Door": SECRET_KEY},
                    "options": {"token": SECRET_KEY, "effort": "low"},
                }
            },
        }
    },
}
SKILL = "---\nname: tidy\ndescription: Tidies up.\n---\nPut things away.\n"


class Response(Struct, frozen=True):
    status: int
    json: Any
    text: str


class ProjectClient:
    def __init__(self, http: ClientSession, listing: Listing, runtime: Runtime, root: Path) -> None:
        self._http = http
        self._url = listing.url
        self._token = {"authorization": f"Bearer {listing.token}"}
        self.runtime = runtime
        self.root = root

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """`path` goes out as it is, encoded or not."""
        named = self._token | {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(f"{self._url}{path}", encoded=True)
        async with (
            asyncio.timeout(PATIENCE),
            self._http.request(method, url, json=body, headers=named) as response,
        ):
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            return Response(response.status, json.loads(text) if is_json else text, text)

    async def get(self, path: str, **headers: str) -> Response:
        return await self.request("GET", path, **headers)

    async def json(self, path: str) -> Any:
        """What a good question is answered."""
        told = await self.get(path)
        assert told.status == 200, (path, told)
        return told.json


def commit_repository(root: Path, files: Mapping[str, str | bytes]) -> None:
    """With one commit of these files."""
    run_git(root.parent, "init", "-q", "-b", "main", str(root))
    write_files(root, files)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "first")


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)


def run_git(where: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout


def make_home(tmp_path: Path, patch: pytest.MonkeyPatch, config: Mapping[str, Any] = PROVIDERS) -> Path:
    """A home with nothing in it but this configuration."""
    home = tmp_path / "home"
    folder = home / ".config" / "asyncagents"
    folder.mkdir(parents=True)
    (folder / "asyncagents.json").write_text(json.dumps(config))
    for name in [*os.environ]:
        if name.startswith(("XDG_", "ASYNCAGENTS_", "OPENCODE_", "GIT_")) or name.endswith("_API_KEY"):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    return home


@asynccontextmanager
async def serve_project(tmp_path: Path, root: Path) -> AsyncIterator[ProjectClient]:
    data = tmp_path / "data"
    loaded = load_config(system_environment(), directory=root, data_dir=data)
    async with (
        open_runtime(data, config=loaded.config, coding="each directory", serve=False) as runtime,
        ClientSession(timeout=ClientTimeout(total=PATIENCE)) as http,
        open_server(runtime, data, ServerOptions(port=0), directory=root) as listing,
    ):
        yield ProjectClient(http, listing, runtime, root)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project under git, of a user whose home holds the providers."""
    make_home(tmp_path, monkeypatch)
    root = tmp_path / "project"
    commit_repository(root, {"src/a.py": 'def hello():\n    return "hello world"\n', ".gitignore": "*.log\n"})
    return root
