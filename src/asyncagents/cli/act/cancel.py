"""`asyncagents cancel`: cancel tasks, batches, sessions or pending calls by id."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.act.submit import PREFIX, find_pending
from asyncagents.cli.exit import USAGE, WAITING, Complaint
from asyncagents.cli.inspect.task_table import name_of
from asyncagents.cli.inspect.task_tree import RESTING, Node, tree
from asyncagents.cli.inspect.task_watch import flat
from asyncagents.cli.lookup import LISTED, find
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.terminal.labels import counted, label
from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import AlreadySettled, Conflict


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@data_dir_option
@click.pass_context
def cancel(context: click.Context, /, *, ids: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """Cancel tasks, batches, sessions or pending calls.

    ID is a task, a session, a batch (`bat_…`) or a pending call (`tool_…`), or a unique prefix of one. All
    sessions below it are cancelled, too. The parent of a cancelled task gets a notice, and the process that
    runs the task stops. A cancelled pending call fails, and its session continues. If one of the ids is
    wrong, nothing is cancelled.

    Exit codes: 0 cancelled, or nothing was at work; 2 no such id; 3 the cancel is stored, but a process has
    not stopped yet.
    """
    import asyncio

    from asyncagents.cli.lookup import look, unknown

    done = asyncio.run(look(data_directory(data_dir), lambda runtime: end_all(runtime, ids), nothing=None))
    if done is None:
        raise unknown(ids[0])
    print_json(done) if as_json else print_ends(done)
    context.exit(exit_code(done))


Kind: TypeAlias = Literal["task", "session", "batch", "call"]
BATCH = "bat_"


class Target(Struct, frozen=True):
    id: str
    kind: Kind
    name: str
    nodes: tuple[Node, ...]
    """The tree before the cancel."""


class End(Struct, frozen=True):
    target: Target
    ended: tuple[str, ...]
    """Ids of the cancelled tasks, the session itself if it was at work, or the call."""
    stopped: bool


async def end_all(runtime: Runtime, starts: Sequence[str]) -> tuple[End, ...]:
    """Cancel the targets. All ids are resolved before the first is cancelled."""
    targets = {target.id: target for target in [await _target(runtime, start) for start in starts]}
    return tuple([await _end(runtime, target) for target in targets.values()])


async def _target(runtime: Runtime, start: str) -> Target:
    if start.startswith(BATCH):
        return await _batch(runtime, start)
    if start.startswith(PREFIX):
        call = await find_pending(runtime, start)
        return Target(call.id, "call", f"{call.tool} of session {call.session_id}", ())
    node = await tree(runtime, await find(runtime, start))
    if node.task is not None:
        return Target(node.session.id, "task", name_of(node), (node,))
    return Target(node.session.id, "session", label(node.session), (node,))


async def _batch(runtime: Runtime, start: str) -> Target:
    tasks = await runtime.tasks.batch(start)
    if not tasks:
        begins = [each for each in await runtime.tasks.list(live=True) if each.batch_id.startswith(start)]
        if len({each.batch_id for each in begins}) > 1:
            raise Complaint(f"several batches begin with {start!r}: write more of the id", code=USAGE)
        tasks = tuple(begins)
    if not tasks:
        raise Complaint(f"there is no batch {start!r} with running tasks", hint=LISTED, code=USAGE)
    parent = await tree(runtime, await runtime.session(tasks[0].parent_session_id))
    nodes = [node for node in parent.below if node.task and node.task.batch_id == tasks[0].batch_id]
    return Target(tasks[0].batch_id, "batch", counted(len(nodes), "task"), tuple(nodes))


async def _end(runtime: Runtime, target: Target) -> End:
    if target.kind == "call":
        return await _end_call(runtime, target)
    if target.kind == "batch":
        stopped = await runtime.tasks.cancel_batch(target.id)
    else:
        stopped = await runtime.abort(SessionId(target.id))
    before = [each for node in target.nodes for each in flat(node) if _works(each)]
    ended = [each.session.id for each in before if await _was_ended(runtime, each)]
    return End(target, tuple(ended), stopped)


async def _end_call(runtime: Runtime, target: Target) -> End:
    """Cancel a pending call; one that already has a result is unchanged."""
    try:
        await runtime.async_tools.cancel(target.id)
    except AlreadySettled:
        return End(target, (), stopped=True)
    except Conflict as error:
        raise Complaint(str(error), code=USAGE) from error
    return End(target, (target.id,), stopped=True)


def _works(node: Node) -> bool:
    """Return whether the session itself has work; tasks that it launched are nodes of their own."""
    if node.task is not None:
        return not node.ended
    return node.why is not None and node.why.code not in RESTING and node.why.code != "tasks"


async def _was_ended(runtime: Runtime, node: Node) -> bool:
    """Return whether the cancel ended the node: a task may have ended by itself before."""
    return node.task is None or (await runtime.tasks.get(node.session.id)).status == "cancelled"


def exit_code(ends: Sequence[End]) -> int:
    return 0 if all(end.stopped for end in ends) else WAITING


def print_ends(ends: Sequence[End]) -> None:
    for end in ends:
        target = end.target
        what = f"{target.kind} {target.id}, {one_line(target.name)}"
        if not end.ended:
            rest = "has a result already" if target.kind == "call" else "is at rest"
            click.echo(f"nothing to cancel: {what}, {rest}")
            continue
        others = len([each for each in end.ended if each != target.id])
        below = f", with {counted(others, 'task')} below it" if others and target.kind != "batch" else ""
        click.echo(f"cancelled: {what}{below}")
        if not end.stopped:
            click.echo("warning: the cancel is stored, but a process has not stopped yet", err=True)


def print_json(ends: Sequence[End]) -> None:
    click.echo(msgspec.json.encode([_builtins(end) for end in ends]))


def _builtins(end: End) -> dict[str, Any]:
    return {"id": end.target.id, "kind": end.target.kind, "ended": end.ended, "stopped": end.stopped}
