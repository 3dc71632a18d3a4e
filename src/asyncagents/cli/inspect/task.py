"""`asyncagents task`: show one task in full."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.inspect.draw_task_tree import TreeStyle, draw_forest, node_name, state_text
from asyncagents.cli.inspect.read_task_tree import TaskNode, read_tree
from asyncagents.cli.lookup import find_task
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.terminal.labels import count_text, run_duration
from asyncagents.cli.terminal.screen import dollars, one_line, plain, token_text
from asyncagents.config.clock import SystemClock
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.shape import encode
from asyncagents.domain.task.summary import ENDED_BY, duration, tool_calls_text
from asyncagents.domain.task.view import BackgroundTask, TaskTotals
from asyncagents.domain.why import Why
from asyncagents.engine.runtime.runtime import Runtime


@click.command()
@click.argument("id")
@json_option
@data_dir_option
def task(*, id: str, as_json: bool, data_dir: Path | None) -> None:
    """Show one task in full: its state, its result, its own tasks.

    ID may be a unique prefix, and `ses_` may be left out. `asyncagents show ID` prints its transcript.
    """
    import asyncio

    from asyncagents.cli.lookup import unknown_session, with_runtime

    details = asyncio.run(
        with_runtime(data_directory(data_dir), lambda runtime: read_task(runtime, id), nothing=None)
    )
    if details is None:
        raise unknown_session(id)
    print_json(details) if as_json else print_task(details)


class TaskDetails(Struct, frozen=True):
    task: BackgroundTask
    node: TaskNode
    why: Why


async def read_task(runtime: Runtime, start: str) -> TaskDetails:
    task = await find_task(runtime, start)
    node = await read_tree(runtime, await runtime.session(task.session_id))
    return TaskDetails(node.task or task, node, await runtime.tasks.why(task.session_id))


def print_json(details: TaskDetails) -> None:
    """Print the task as clients see it, with tokens, cost, why it does not proceed, and its own tasks."""
    session = details.node.session
    more = {
        "tokens": session.tokens or Tokens.zero(),
        "cost": session.cost or 0,
        "why": {"code": details.why.code, "sentence": details.why.sentence, "on": details.why.on},
        "tasks": [each.task for each in details.node.below],
    }
    task = msgspec.json.decode(encode(details.task))
    click.echo(msgspec.json.encode({**task, **msgspec.json.decode(encode(more))}))


def print_task(details: TaskDetails) -> None:
    click.echo(node_name(details.node))
    for name, value in _facts(details):
        click.echo(f"  {name:<10} {one_line(value, 300)}")
    task = details.task
    _print_text("prompt", task.prompt)
    if task.pending_resume:
        _print_text("follow-up, not read yet", task.pending_resume.prompt)
    if task.error:
        _print_text("error", task.error)
    if task.result is not None:
        _print_text("result", task.result or "(empty)")
    if details.node.below:
        click.echo("\ntasks:")
        for line in draw_forest(details.node.below, TreeStyle()):
            click.echo(f"  {line.text}")


def _all_runs(totals: TaskTotals) -> str:
    spent = f"{token_text(totals.tokens)} tokens, {dollars(totals.cost)}"
    time = "" if totals.duration is None else f", {duration(totals.duration)}"
    return f"{count_text(totals.runs, 'run')}, {count_text(totals.tool_calls, 'tool')}, {spent}{time}"


def _print_text(name: str, text: str) -> None:
    click.echo(f"\n{name}:")
    for line in plain(text).splitlines():
        click.echo(f"  {line}".rstrip())


def _facts(details: TaskDetails) -> Iterator[tuple[str, str]]:
    task, session = details.task, details.node.session
    progress = task.progress
    yield "id", task.session_id
    yield "state", state_text(details.node)
    if task.ended_by:
        yield "ended by", f"{task.ended_by}: {ENDED_BY[task.ended_by]}"
    if not details.node.has_ended:
        yield "why", f"{details.why.sentence} ({details.why.code})"
    yield "agent", task.agent
    yield "launched", f"by {task.parent_agent}, {task.parent_session_id}, {task.started_at}"
    yield "kind", task.kind
    yield "batch", task.batch_id
    yield "took", run_duration(task, SystemClock().now())
    if progress:
        yield "tools", tool_calls_text(progress.tool_calls, progress.tool_calls_by_name)
    spent = progress or session
    yield "spent", f"{token_text(spent.tokens)} tokens, {dollars(spent.cost)}"
    if task.totals:
        yield "all runs", _all_runs(task.totals)
    if task.resume_count:
        yield "resumed", count_text(task.resume_count, "time")
    if task.result_retrieved_at:
        yield "read", f"by its parent, {task.result_retrieved_at}"
