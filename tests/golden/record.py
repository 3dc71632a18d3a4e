"""Builds the texts that a change of Python names must not touch: wire, schemas, help, stored fields."""

import asyncio
import importlib
import json
import pkgutil
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from asyncagents import open_runtime
from asyncagents.cli.main import main
from asyncagents.server.openapi import document
from asyncagents.server.routes import ROUTES
from asyncagents.testing.provider import Reply, ToolUse, open_provider
from tests.support.git import create_repository
from tests.support.provider import PROVIDER_KEY, provider_config
from tests.support.wait import PATIENCE

FILES = Path(__file__).parent / "files"
WIRES = "chat", "messages"
_STORED = "domain", "archive"
_NOT_FIXED = (
    (re.compile(r"\b(ses|msg|prt|tool|toolu|req|bat|call)_[0-9a-f]{6,}\w*"), r"\1_*"),
    (re.compile(r"Date: \w+, \d+ \w+ \d{4}"), "Date: *"),
    (re.compile(r"Platform: \w+"), "Platform: *"),
)


def pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def openapi() -> str:
    """`/doc`."""
    return pretty(document(ROUTES))


def command_help() -> str:
    """`--help` of every command."""
    return "\n".join(_help_below(main, click.Context(main, info_name="asyncagents", **main.context_settings)))


def _help_below(command: click.Command, context: click.Context) -> Iterator[str]:
    context.terminal_width = context.max_content_width = 100
    yield f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _help_below(inner, click.Context(inner, info_name=name, parent=context))


def struct_fields() -> str:
    """Tag and fields of every Struct that may be stored or sent, without the name of its class."""
    return "\n".join(sorted(_line(kind) for kind in _structs())) + "\n"


def _structs() -> set[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()
    for room in _STORED:
        package = importlib.import_module(f"asyncagents.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            names = vars(importlib.import_module(module.name)).values()
            found |= {each for each in names if isinstance(each, type) and issubclass(each, msgspec.Struct)}
    return {kind for kind in found if kind.__module__.startswith("asyncagents.") and kind.__struct_fields__}


def _line(kind: type[msgspec.Struct]) -> str:
    tag = kind.__struct_config__.tag
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    shown = (
        f"{name}{'?' if at >= required else ''}" for at, name in enumerate(kind.__struct_encode_fields__)
    )
    return f"{kind.__module__.split('.')[1]} {tag or '-'}: {' '.join(shown)}"


def database_schema(folder: Path) -> str:
    """Tables and indexes of a new SQLite file."""

    async def create() -> None:
        async with open_runtime(folder, serve=False):
            pass

    asyncio.run(create())
    with sqlite3.connect(folder / "asyncagents.db") as database:
        rows = database.execute("select sql from sqlite_master where sql is not null order by type, name")
        return "\n".join(f"{sql};" for (sql,) in rows) + "\n"


def provider_requests(folder: Path, wire: str) -> str:
    """The requests of a turn with one tool call, as the provider gets them, tools and prompts included."""
    text = pretty(asyncio.run(_requests(folder, wire))).replace(str(folder), "FOLDER")
    for pattern, instead in _NOT_FIXED:
        text = pattern.sub(instead, text)
    return text


async def _requests(folder: Path, wire: str) -> list[Any]:
    create_repository(folder / "project", {"a.txt": "one\n"})
    steps = [Reply(tools=(ToolUse("read", {"filePath": "a.txt"}),)), Reply(text="One.")]
    async with open_provider({"go": steps}, key=PROVIDER_KEY) as provider, asyncio.timeout(PATIENCE):
        settings = provider_config(provider, folder / "data")
        async with open_runtime(
            folder / "data", model=f"{wire}/small", config=settings, coding=True
        ) as runtime:
            session = await runtime.create_session(directory=folder / "project")
            await runtime.prompt(session.id, "go")
        return [request.body for request in provider.requests if request.body.get("tools")]


def goldens(folder: Path) -> dict[str, str]:
    """Every golden file by its name."""
    made = {
        "openapi.json": openapi(),
        "help.txt": command_help(),
        "structs.txt": struct_fields(),
        "sqlite.sql": database_schema(folder / "store"),
    }
    return made | {f"requests_{wire}.json": provider_requests(folder / wire, wire) for wire in WIRES}
