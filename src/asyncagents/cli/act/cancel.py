"""`asyncagents cancel`: cancel tasks, batches, sessions or pending calls by id."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.cli.act.submit import PREFIX, find_pending
from asyncagents.cli.exit import USAGE, WAITING, CliError
from asyncagents.cli.inspect.draw_task_tree import node_name
from asyncagents.cli.inspect.read_task_tree import RESTING, TaskNode, is_tree_running, read_tree
from asyncagents.cli.inspect.task_watch import flatten
from asyncagents.cli.lookup import TASKS_HINT, find_session
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.terminal.labels import count_text, session_label
from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.runtime.tasks import ANY_POOL
from asyncagents.errors import AlreadySettled, Conflict, NotFound


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@data_dir_option
@click.pass_context
def cancel(context: click.Context, /, *, ids: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """Cancel tasks, batches, sessions or pending calls.

    ID is a task, a session, a batch (`bat_…`) or a pending call (`tool_…`), or a unique prefix of one. All
    sessions below it are cancelled, too. The parent of a cancelled task gets a notice, and the process that
    runs the task stops. A cancelled pending call fails. Its session, or the parent of the task, continues in
    the server of this data or the process that runs it, else with the next `asyncagents run --session`. If
    one of the ids is wrong, nothing is cancelled.

    Exit codes: 0 cancelled, or nothing was at work; 2 no such id; 3 the cancel is stored, but a process has
    not stopped yet.
    """
    import asyncio

    from asyncagents.cli.lookup import unknown_session, with_runtime

    done = asyncio.run(
        with_runtime(data_directory(data_dir), lambda runtime: cancel_all(runtime, ids), nothing=None)
    )
    if done is None:
        raise unknown_session(ids[0])
    print_json(done) if as_json else print_outcomes(done)
    context.exit(exit_code(done))


TargetKind: TypeAlias = Literal["task", "session", "batch", "call"]
BATCH = "bat_"


class CancelTarget(Struct, frozen=True):
    id: str
    kind: TargetKind
    name: str
    nodes: tuple[TaskNode, ...]
    """The tree before the cancel."""
    reader: SessionId | None = None
    """The session that reads that the target ended: the parent of the tasks, or the session of the call."""


class CancelOutcome(Struct, frozen=True):
    target: CancelTarget
    ended: tuple[str, ...]
    """Ids of the cancelled tasks, the session itself if it was at work, or the call."""
    stopped: bool
    left: SessionId | None = None
    """The root of a session that continues now and that no process serves."""


async def cancel_all(runtime: Runtime, starts: Sequence[str]) -> tuple[CancelOutcome, ...]:
    """Cancel the targets. All ids are resolved before the first is cancelled."""
    targets = {target.id: target for target in [await _find_target(runtime, start) for start in starts]}
    done = [await _cancel(runtime, target) for target in targets.values()]
    return tuple([replace(outcome, left=await _find_left(runtime, outcome)) for outcome in done])


async def _find_target(runtime: Runtime, start: str) -> CancelTarget:
    if start.startswith(BATCH):
        return await _batch_target(runtime, start)
    if start.startswith(PREFIX):
        call = await find_pending(runtime, start)
        return CancelTarget(call.id, "call", f"{call.tool} of session {call.session_id}", (), call.session_id)
    node = await read_tree(runtime, await find_session(runtime, start))
    if node.task is not None:
        return CancelTarget(node.session.id, "task", node_name(node), (node,), node.task.parent_session_id)
    return CancelTarget(node.session.id, "session", session_label(node.session), (node,))


async def _batch_target(runtime: Runtime, start: str) -> CancelTarget:
    tasks = await runtime.tasks.batch(start)
    if not tasks:
        begins = [each for each in await runtime.tasks.list(live=True) if each.batch_id.startswith(start)]
        if len({each.batch_id for each in begins}) > 1:
            raise CliError(f"several batches begin with {start!r}: write more of the id", code=USAGE)
        tasks = tuple(begins)
    if not tasks:
        raise CliError(f"there is no batch {start!r} with running tasks", hint=TASKS_HINT, code=USAGE)
    parent = await read_tree(runtime, await runtime.session(tasks[0].parent_session_id))
    nodes = [node for node in parent.below if node.task and node.task.batch_id == tasks[0].batch_id]
    name = count_text(len(nodes), "task")
    return CancelTarget(tasks[0].batch_id, "batch", name, tuple(nodes), parent.session.id)


async def _cancel(runtime: Runtime, target: CancelTarget) -> CancelOutcome:
    if target.kind == "call":
        return await _cancel_call(runtime, target)
    if target.kind == "batch":
        stopped = await runtime.tasks.cancel_batch(target.id)
    else:
        stopped = await runtime.abort(SessionId(target.id))
    before = [each for node in target.nodes for each in flatten(node) if _has_own_work(each)]
    ended = [each.session.id for each in before if await _was_cancelled(runtime, each)]
    return CancelOutcome(target, tuple(ended), stopped)


async def _cancel_call(runtime: Runtime, target: CancelTarget) -> CancelOutcome:
    """Cancel a pending call; one that already has a result is unchanged."""
    try:
        await runtime.async_tools.cancel(target.id)
    except AlreadySettled:
        return CancelOutcome(target, (), stopped=True)
    except Conflict as error:
        raise CliError(str(error), code=USAGE) from error
    return CancelOutcome(target, (target.id,), stopped=True)


async def _find_left(runtime: Runtime, outcome: CancelOutcome) -> SessionId | None:
    """Return the root of the session that reads about the cancel, if it has work and no process serves it."""
    reader = outcome.target.reader
    if reader is None or not outcome.ended:
        return None
    try:
        why, root_id = await runtime.tasks.why(reader), await runtime.root_of(reader)
    except NotFound:  # it was deleted just now
        return None
    if why.code not in ("ready", "no_worker") or runtime.tasks.is_served_elsewhere(ANY_POOL):
        return None
    waits = outcome.target.kind == "call" and bool(await runtime.open_calls(reader))
    return None if waits or await is_tree_running(runtime, root_id) else root_id


def _has_own_work(node: TaskNode) -> bool:
    """Return whether the session itself has work; tasks that it launched are nodes of their own."""
    if node.task is not None:
        return not node.has_ended
    return node.why is not None and node.why.code not in RESTING and node.why.code != "tasks"


async def _was_cancelled(runtime: Runtime, node: TaskNode) -> bool:
    """Return whether the cancel ended the node: a task may have ended by itself before."""
    return node.task is None or (await runtime.tasks.get(node.session.id)).status == "cancelled"


def exit_code(ends: Sequence[CancelOutcome]) -> int:
    return 0 if all(outcome.stopped for outcome in ends) else WAITING


def print_outcomes(ends: Sequence[CancelOutcome]) -> None:
    for outcome in ends:
        target = outcome.target
        what = f"{target.kind} {target.id}, {one_line(target.name)}"
        if not outcome.ended:
            rest = "has a result already" if target.kind == "call" else "is at rest"
            click.echo(f"nothing to cancel: {what}, {rest}")
            continue
        others = len([each for each in outcome.ended if each != target.id])
        below = f", with {count_text(others, 'task')} below it" if others and target.kind != "batch" else ""
        click.echo(f"cancelled: {what}{below}")
        if not outcome.stopped:
            click.echo("warning: the cancel is stored, but a process has not stopped yet", err=True)
    for root_id in dict.fromkeys(outcome.left for outcome in ends if outcome.left is not None):
        click.echo(
            f"hint: no process serves the session: `asyncagents run --session {root_id}` continues it",
            err=True,
        )


def print_json(ends: Sequence[CancelOutcome]) -> None:
    click.echo(msgspec.json.encode([_builtins(outcome) for outcome in ends]))


def _builtins(outcome: CancelOutcome) -> dict[str, Any]:
    return {
        "id": outcome.target.id,
        "kind": outcome.target.kind,
        "ended": outcome.ended,
        "stopped": outcome.stopped,
    }
