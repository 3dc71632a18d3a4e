"""TODO."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.config.config import Config
from asyncagents.llm.scripted import ScriptedModel, say
from tests.support.http.server import StageClient, serve_stage
from tests.support.project import create_repository

GREETINGS = {"hi": [[say("Hello.")]], "again": [[say("Again.")]], "more": [[say("More.")]]}


@asynccontextmanager
async def serve_coding_project(
    tmp_path: Path, script: Any = GREETINGS, **config: Any
) -> AsyncIterator[StageClient]:
    root = tmp_path / "project"
    create_repository(root, {})
    model = ScriptedModel(script)
    settings = Config(data_dir=tmp_path / "data", **config)
    async with serve_stage(tmp_path / "data", model, coding=settings, directory=root) as at:
        yield at


async def create_session(at: StageClient, tmp_path: Path, **body: Any) -> str:
    """The path of a new session."""
    made = await at.post(f"/session?directory={tmp_path}/project", body)
    return f"/session/{made.json['id']}"
