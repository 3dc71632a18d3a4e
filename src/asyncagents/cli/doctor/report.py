"""Prints the doctor's checks, one line each, or JSON."""

import sys
from collections.abc import Sequence
from typing import Literal, TypeAlias

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.terminal.screen import plain
from asyncagents.config.env import system_environment

Level: TypeAlias = Literal["ok", "warn", "fail"]
COLOURS: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


class Check(Struct, frozen=True):
    level: Level
    name: str
    text: str
    hint: str = ""


def print_json(found: Sequence[Check]) -> None:
    broken = any(each.level == "fail" for each in found)
    click.echo(msgspec.json.encode({"ok": not broken, "checks": found}))


def print_report(found: Sequence[Check]) -> None:
    coloured = sys.stdout.isatty() and not system_environment().get("NO_COLOR")
    width = max(len(each.name) for each in found)
    for each in found:
        level = each.level.ljust(4)
        level = click.style(level, fg=COLOURS[each.level]) if coloured else level
        click.echo(f"{level}  {each.name.ljust(width)}  {plain(each.text)}")
        if each.hint:
            click.echo(f"{' ' * (width + 8)}{plain(each.hint)}")
