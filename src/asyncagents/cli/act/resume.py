"""`asyncagents resume`: send a follow-up to a task, running or ended."""

import asyncio
from pathlib import Path
from typing import cast

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.act.answer import server_url
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.inspect.read_task_tree import is_tree_running
from asyncagents.cli.lookup import find_task, unknown_session, with_runtime
from asyncagents.cli.options import data_dir_option, data_directory, form_option
from asyncagents.cli.project.trust_offer import with_trust
from asyncagents.cli.run.arguments import Format, RunArguments
from asyncagents.cli.run.command import execute_run
from asyncagents.cli.run.local import LocalProject, choose_and_warn, load_project, run_locally
from asyncagents.cli.terminal.screen import Screen, log_to_screen
from asyncagents.domain.conversation.session import Session
from asyncagents.engine.runtime.runtime import Runtime


@click.command()
@click.argument("id")
@click.argument("prompt", required=False)
@click.option("--key", metavar="TEXT", help="Send this once: the same key again sends nothing.")
@click.option("--detach", is_flag=True, help="Store the follow-up; do not run the task.")
@form_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@data_dir_option
@click.pass_context
def resume(  # noqa: PLR0913  its options
    context: click.Context,
    /,
    *,
    id: str,
    prompt: str | None,
    key: str | None,
    detach: bool,
    form: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Send a follow-up to a task and run it.

    The task keeps its history. An ended task begins another run, whose end sends its parent a notice; a
    running task reads the follow-up before its next step. The prompt is the argument, stdin, or both. ID may
    be a unique prefix, and `ses_` may be left out.

    If no process runs its tree, this one does until it rests, prints the task's answer, and exits with the
    codes of `asyncagents run`.
    """
    from asyncagents.cli.run.arguments import read_prompt

    follow = Followup(start=id, prompt=read_prompt(prompt), key=key, detach=detach)
    data_directory(data_dir)
    context.exit(send_followup(follow, "json" if as_json else form, data_dir))


class Followup(Struct, frozen=True, kw_only=True):
    """The arguments of `asyncagents resume`."""

    start: str
    prompt: str
    key: str | None = None
    detach: bool = False


def send_followup(follow: Followup, form: str, data_dir: Path | None) -> int:
    """Store the follow-up and run the tree, or leave it to its owner. Returns the exit code."""
    if not follow.prompt.strip():
        raise CliError(
            "the prompt is empty",
            hint=f'pass one, as in `asyncagents resume {follow.start} "And then?"`, or pipe it in',
            code=USAGE,
        )
    session = asyncio.run(
        with_runtime(data_directory(data_dir), lambda found: _find_session(found, follow), nothing=None)
    )
    if session is None:
        raise unknown_session(follow.start)
    screen = Screen()
    log_to_screen(screen)
    arguments = _run_arguments(session, form, data_dir)
    server = server_url(data_directory(data_dir))
    project = with_trust(
        arguments.directory,
        screen,
        lambda: _load_project(arguments, follow, session, screen),
        offers=form == "text",
    )
    is_run = asyncio.run(_send(follow, project, session))
    if follow.detach or (is_run and not server):
        click.echo(_sent_text(session, is_run=is_run, server=server), err=True)
        return 0
    return execute_run(arguments, screen) if server else asyncio.run(run_locally(arguments, project, screen))


def _load_project(
    arguments: RunArguments, follow: Followup, session: Session, screen: Screen
) -> LocalProject:
    """Load the session's project and check its model, before anything is stored.

    If a server runs the session, the server checks the model.
    """
    if server_url(data_directory(arguments.data_dir)):
        return load_project(arguments, Screen())
    project = load_project(arguments, screen)
    choose_and_warn(project, replace(arguments, prompt=follow.prompt), session, screen)
    return project


async def _find_session(runtime: Runtime, follow: Followup) -> Session:
    return await runtime.session((await find_task(runtime, follow.start)).session_id)


def _run_arguments(session: Session, form: str, data_dir: Path | None) -> RunArguments:
    """Return arguments that continue the session in its own directory."""
    directory = Path(session.directory)
    return RunArguments(
        session=session.id,
        directory=directory if directory.is_dir() else Path.cwd(),
        data_dir=data_dir,
        format=cast("Format", form),
    )


async def _send(follow: Followup, project: LocalProject, session: Session) -> bool:
    """Store the follow-up; return whether a living process runs the tree."""
    async with open_runtime(
        project.config.data_dir, config=project.config, coding=project.files, serve=False
    ) as runtime:
        await runtime.tasks.resume(session.id, follow.prompt, key=follow.key)
        return await is_tree_running(runtime, await runtime.root_of(session.id))


def _sent_text(session: Session, *, is_run: bool, server: str) -> str:
    shown = f"`asyncagents task {session.id}` shows it"
    if server:
        return f"sent; the server at {server} runs it, {shown}"
    if is_run:
        return f"sent; another process runs it, {shown}"
    return f"sent; no process runs it until `asyncagents run --session {session.id}` does"
