"""Text lines about a task with what the runtime counted, independent of the agent's own report."""

from collections.abc import Iterator, Mapping, Sequence

from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.envelope import one_line
from asyncagents.domain.task.account import all_runs, is_mixed
from asyncagents.domain.task.task import Account, EndedBy, Task, Totals

MOST_NAMES = 20
ENDED_BY: dict[EndedBy, str] = {
    "user": "the user stopped it",
    "parent": "the agent that launched it cancelled it",
    "deadline": "its time was up",
    "shutdown": "the runtime shut down",
    "crash": "the process that ran it died",
}


def duration(ms: int) -> str:
    """Format a duration, as in `45s`, `1m 5s`, `1h 0m 3s`."""
    minutes, seconds = divmod(max(ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m {seconds}s"
    return f"{minutes}m {seconds}s" if minutes else f"{seconds}s"


def metadata_text(task: Task) -> str:
    """Return the metadata of an ended run in its envelope; a missing account is left out."""
    return "\n".join(("<task_metadata>", *_metadata_lines(task), "</task_metadata>"))


def _metadata_lines(task: Task) -> Iterator[str]:
    yield f"session_id: {task.id}"
    yield f"status: {task.status}"
    if task.ended_by:
        yield f"ended_by: {task.ended_by} ({ENDED_BY[task.ended_by]})"
    if task.account:
        yield from _account_lines(task, task.account)
    totals = all_runs(task, task.account)
    if totals:
        yield from _total_lines(task, totals)


def _account_lines(task: Task, account: Account) -> Iterator[str]:
    """Yield the lines of the ended run."""
    yield f"finish: {finish_text(account)}"
    if not is_mixed(task):
        yield f"tool_calls: {tool_calls_text(account.tool_calls, account.by_name)}"
        yield f"tokens: {_tokens(account.tokens)}"
        yield f"cost: ${account.cost:.4f}"
    yield f"duration: {duration(account.ms)}"


def _total_lines(task: Task, totals: Totals) -> Iterator[str]:
    """Yield the lines of the sums over all runs."""
    yield f"runs: {task.run + 1}"
    yield f"total_tool_calls: {tool_calls_text(totals.tool_calls, totals.by_name)}"
    yield f"total_tokens: {_tokens(totals.tokens)}"
    yield f"total_cost: ${totals.cost:.4f}"
    if totals.ms is not None:
        yield f"total_duration: {duration(totals.ms)}"


def finish_text(account: Account) -> str:
    return one_line(account.finish) or "none (no step of the model ended)"


def tool_calls_text(count: int, by_name: Mapping[str, int]) -> str:
    """Format counts, as in `3 (read 2, bash 1)`, most used first; limited, as models may invent names."""
    named = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    if not named:
        return str(count)
    entries = [f"{one_line(name)} {times}" for name, times in named[:MOST_NAMES]]
    if len(named) > MOST_NAMES:
        entries.append(f"{len(named) - MOST_NAMES} more")
    return f"{count} ({', '.join(entries)})"


def tool_names_text(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names))


def _tokens(tokens: Tokens) -> str:
    cache = f"{tokens.cache.read} cache read, {tokens.cache.write} cache write"
    return f"{tokens.input} input, {tokens.output} output, {tokens.reasoning} reasoning, {cache}"


def no_text_note(task: Task) -> str:
    """Return the note for a run that completed without a final text."""
    note = "The agent ended without a final text."
    if task.account is None or is_mixed(task):
        return f"{note} Resume the task to ask for one."
    calls = tool_calls_text(task.account.tool_calls, task.account.by_name)
    return f"{note} Finish: {finish_text(task.account)}; tool calls: {calls}. Resume the task to ask for one."


def task_failure(task: Task) -> tuple[str, str]:
    """Return the error type and message of a failed or cancelled task."""
    if task.live:
        raise ValueError(f"task {task.id} has not ended: it is {task.status}")
    by = ENDED_BY[task.ended_by] if task.ended_by else ""
    message = (task.error.message if task.error else "").strip()
    if task.status == "cancelled":
        return "MessageAbortedError", message or f"Cancelled: {by or 'nobody said why'}."
    name = task.error.name if task.error else "UnknownError"
    return one_line(name), message or f"It failed: {by or 'no message was given'}."
