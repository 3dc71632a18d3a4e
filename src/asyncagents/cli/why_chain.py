"""Why a session does not move, and why those do not that it waits for."""

from typing import Any

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.screen import one_line
from asyncagents.cli.task_find import find
from asyncagents.cli.task_words import label
from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.why import Why
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import NotFound

MOST = 10
"""So many are told below one session; the JSON has them all."""


class Reason(Struct, frozen=True):
    session: Session
    why: Why
    below: tuple["Reason", ...] = ()


async def chain(runtime: Runtime, start: str) -> Reason:
    return await _reason(runtime, await find(runtime, start))


async def _reason(runtime: Runtime, session: Session) -> Reason:
    """It ends: a task never waits for one above it."""
    why = await runtime.tasks.why(session.id)
    below = []
    for each in why.on:
        if each.startswith("ses_"):
            try:
                below.append(await _reason(runtime, await runtime.session(SessionId(each))))
            except NotFound:  # it was deleted just now
                continue
    return Reason(session, why, tuple(below))


def print_reasons(reason: Reason, indent: str = "") -> None:
    name = one_line(label(reason.session))
    click.echo(f"{indent}{reason.session.id}  {name}")
    click.echo(f"{indent}  {reason.why.code}: {one_line(reason.why.sentence, 1000)}")
    for each in reason.below[:MOST]:
        print_reasons(each, f"{indent}    ")
    if len(reason.below) > MOST:
        click.echo(f"{indent}    … and {len(reason.below) - MOST} more; --json has them all")


def print_json(reason: Reason) -> None:
    click.echo(msgspec.json.encode(_builtins(reason)))


def _builtins(reason: Reason) -> dict[str, Any]:
    return {
        "session": reason.session.id,
        "title": reason.session.title,
        "code": reason.why.code,
        "sentence": reason.why.sentence,
        "on": list(reason.why.on),
        "below": [_builtins(each) for each in reason.below],
    }
