"""Stores a follow-up to a task, then runs its tree as `run --session` does."""

import asyncio
from pathlib import Path
from typing import cast

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app import open_runtime
from asyncagents.cli.answer_give import server_url
from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.look import look
from asyncagents.cli.option import data_directory
from asyncagents.cli.run_here import Here, choose_here, find_here, work_here
from asyncagents.cli.run_order import Format, Order
from asyncagents.cli.run_there import carry_out
from asyncagents.cli.screen import Screen, listen
from asyncagents.cli.task_find import find_task, unknown
from asyncagents.cli.tasks_tree import tree_is_run
from asyncagents.cli.trust_offer import with_trust
from asyncagents.domain.session import Session
from asyncagents.engine.runtime import Runtime


class Followup(Struct, frozen=True, kw_only=True):
    """The arguments of `asyncagents resume`."""

    start: str
    prompt: str
    key: str | None = None
    detach: bool = False


def carry_on(follow: Followup, form: str, data_dir: Path | None) -> int:
    """Store the follow-up and run the tree, or leave it to its owner. Returns the exit code."""
    if not follow.prompt.strip():
        raise Complaint(
            "the prompt is empty",
            hint=f'pass one, as in `asyncagents resume {follow.start} "And then?"`, or pipe it in',
            code=USAGE,
        )
    session = asyncio.run(look(data_directory(data_dir), lambda found: _find(found, follow), nothing=None))
    if session is None:
        raise unknown(follow.start)
    screen = Screen()
    listen(screen)
    order = _order(session, form, data_dir)
    server = server_url(data_directory(data_dir))
    here = with_trust(
        order.directory, screen, lambda: _here(order, follow, session, screen), offers=form == "text"
    )
    is_run = asyncio.run(_send(follow, here, session))
    if follow.detach or (is_run and not server):
        click.echo(_sent(session, is_run=is_run, server=server), err=True)
        return 0
    return carry_out(order, screen) if server else asyncio.run(work_here(order, here, screen))


def _here(order: Order, follow: Followup, session: Session, screen: Screen) -> Here:
    """Load the session's project and check its model, before anything is stored.

    If a server runs the session, the server checks the model.
    """
    if server_url(data_directory(order.data_dir)):
        return find_here(order, Screen())
    here = find_here(order, screen)
    choose_here(here, replace(order, prompt=follow.prompt), session, screen)
    return here


async def _find(runtime: Runtime, follow: Followup) -> Session:
    return await runtime.session((await find_task(runtime, follow.start)).session_id)


def _order(session: Session, form: str, data_dir: Path | None) -> Order:
    """Return arguments that continue the session in its own directory."""
    directory = Path(session.directory)
    return Order(
        session=session.id,
        directory=directory if directory.is_dir() else Path.cwd(),
        data_dir=data_dir,
        format=cast("Format", form),
    )


async def _send(follow: Followup, here: Here, session: Session) -> bool:
    """Store the follow-up; return whether a living process runs the tree."""
    async with open_runtime(
        here.config.data_dir, config=here.config, coding="each directory", serve=False
    ) as runtime:
        await runtime.tasks.resume(session.id, follow.prompt, key=follow.key)
        return await tree_is_run(runtime, await runtime.root_of(session.id))


def _sent(session: Session, *, is_run: bool, server: str) -> str:
    shown = f"`asyncagents task {session.id}` shows it"
    if server:
        return f"sent; the server at {server} runs it, {shown}"
    if is_run:
        return f"sent; another process runs it, {shown}"
    return f"sent; no process runs it until `asyncagents run --session {session.id}` does"
