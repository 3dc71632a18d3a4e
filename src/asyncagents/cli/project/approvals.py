"""`asyncagents approvals`: list approvals of a project, and withdraw them."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from asyncagents.cli.ask.always_scope import describe_scope
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.terminal.screen import ago, print_table
from asyncagents.config.clock import SystemClock
from asyncagents.domain.agent.approval import ID_PREFIX, Approval
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.approvals import MAX_LIMIT
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound


@click.group(invoke_without_command=True)
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@json_option
@directory_option
@data_dir_option
@click.pass_context
def approvals(
    context: click.Context, /, *, everywhere: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List approvals (answers `always`), newest first.

    An approval allows calls of its project without asking. `asyncagents approvals withdraw ID` deletes one;
    every process, servers included, asks again at the next call.
    """
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from asyncagents.cli.lookup import with_runtime

    where = None if everywhere else project_folder(directory)
    found = asyncio.run(
        with_runtime(data_directory(data_dir), lambda runtime: list_approvals(runtime, where), nothing=NONE)
    )
    print_json(found) if as_json else print_rows(found, where)


@approvals.command()
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Withdraw all approvals of this directory.")
@directory_option
@data_dir_option
def withdraw(*, ids: tuple[str, ...], everything: bool, directory: Path, data_dir: Path | None) -> None:
    """Withdraw approvals, so that their calls ask again.

    ID is an id that `asyncagents approvals` lists, of any directory, or a unique prefix of one. If one of the
    ids is wrong, none is withdrawn.
    """
    import asyncio

    from asyncagents.cli.lookup import with_runtime

    scope = withdraw_scope(ids, project_folder(directory) if everything else None)
    data = data_directory(data_dir)
    print_withdrawn(
        asyncio.run(with_runtime(data, lambda runtime: withdraw_approvals(runtime, scope), nothing=None)),
        scope,
    )


HINT = "`asyncagents approvals --all` lists all approvals"


NONE: tuple[Approval, ...] = ()


class WithdrawScope(Struct, frozen=True):
    """The approvals to withdraw: by id, or all of a directory."""

    ids: tuple[str, ...]
    directory: Path | None


def withdraw_scope(ids: tuple[str, ...], directory: Path | None) -> WithdrawScope:
    if bool(ids) == (directory is not None):
        raise CliError(
            "name the approvals to withdraw by their ids, or all with --all", hint=HINT, code=USAGE
        )
    return WithdrawScope(tuple(dict.fromkeys(ids)), directory)


async def list_approvals(runtime: Runtime, directory: Path | None) -> tuple[Approval, ...]:
    return await runtime.approvals.list(directory)


async def withdraw_approvals(runtime: Runtime, scope: WithdrawScope) -> int:
    """Withdraw the approvals and return their number. All ids are resolved before the first is withdrawn."""
    if scope.directory is not None:
        return await runtime.approvals.withdraw_all(scope.directory)
    known = await runtime.approvals.list(None)
    found = dict.fromkeys([_find_id(known, each) for each in scope.ids])
    for approval_id in found:
        try:
            await runtime.approvals.withdraw(approval_id)
        except NotFound as error:
            raise _unknown_approval(approval_id) from error
    return len(found)


def _find_id(known: Sequence[Approval], start: str) -> str:
    """Complete a prefix to an id; an id older than the listed ones is returned unchanged."""
    named = start if start.startswith(ID_PREFIX) else f"{ID_PREFIX}{start}"
    found = [each.id for each in known if each.id.startswith(named)]
    if named == ID_PREFIX or (not found and len(known) < MAX_LIMIT):
        raise _unknown_approval(start)
    if len(found) > 1 and named not in found:
        raise CliError(f"several approvals begin with {start!r}: write more of the id", hint=HINT, code=USAGE)
    return named if named in found or not found else found[0]


def _unknown_approval(start: str) -> CliError:
    return CliError(str(NotFound("approval", start)), hint=HINT, code=USAGE)


def print_withdrawn(count: int | None, scope: WithdrawScope) -> None:
    """Print the number of withdrawn approvals; None means that there is no store yet."""
    if count is None and scope.ids:
        raise _unknown_approval(scope.ids[0])
    click.echo(
        f"withdrawn: {count or 0}; these calls ask again from now on" if count else "nothing to withdraw"
    )


def print_rows(found: Sequence[Approval], directory: Path | None) -> None:
    if not found:
        where = f" in {directory}; --all looks everywhere" if directory else ""
        click.echo(f"no approvals{where}", err=True)
        return
    now = SystemClock().now()
    print_table([_cells(each, now, everywhere=directory is None) for each in found], flexible=2)
    if len(found) == MAX_LIMIT:
        click.echo(f"only the {MAX_LIMIT} newest are listed", err=True)


def _cells(known: Approval, now: int, *, everywhere: bool) -> tuple[str, ...]:
    what = describe_scope(known.permission, (known.pattern,), exact=known.exact)
    place = (known.directory or "(its sessions are deleted)",) if everywhere else ()
    return known.id, ago(known.time.created, now), what, *place


def print_json(found: Sequence[Approval]) -> None:
    click.echo(encode(found))
