"""Texts about tasks for models. Those of `async_task` and its result are fixed, as clients parse them."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from asyncagents.domain.envelope import envelope, escape_tags, one_line
from asyncagents.domain.task.summary import (
    duration,
    metadata_text,
    no_text_note,
    task_failure,
    tool_calls_text,
    tool_names_text,
)
from asyncagents.domain.task.task import Progress, Task
from asyncagents.domain.text import shorten_middle

MOST_CHARACTERS = 45_000
"""Max characters of a task's result: the limit of a tool's output, less room for our own text."""
MOST_LISTED = 200
NO_TASKS = "No background tasks found"
_FOREIGN = (
    "is not a task of yours: you did not launch it, or the task was cleared. "
    "Use a task_id that one of your launches returned."
)
_WAIT = "A notice comes when it ends, so do not poll: go on with other work, or end your turn and wait."


def launched_text(task: Task) -> str:
    return (
        f"task_id: {task.id}\nagent: {one_line(task.agent)}\ndescription: {one_line(task.description)}\n"
        "status: launched\n\nUse async_task_result with this task_id to retrieve the result when ready."
    )


def async_task_result_text(task: Task) -> str:
    """Return the text of `async_task_result` for an existing task."""
    if task.live:
        return f"status: running\ntask_id: {task.id}\n\nThe task is still in progress. Try again shortly."
    if task.status == "completed":
        result = task.result or ""
        text = envelope("task_result", result) + ("" if result.strip() else f"\n\n{no_text_note(task)}")
        return f"status: complete\ntask_id: {task.id}\n\n{text}"
    name, message = task_failure(task)
    return f"status: error\ntask_id: {task.id}\nerror_type: {name}\n\n{_error_text(message)}"


def _error_text(message: str) -> str:
    """Return an error message without an envelope if it is a single plain line."""
    plain = len(message.splitlines()) == 1 and "**" not in message
    return escape_tags(message) if plain else envelope("task_error", message)


def missing_session_text(task_id: str) -> str:
    return (
        f"status: error\ntask_id: {one_line(task_id)}\n\n"
        "Session not found. The task_id may be invalid or the session was deleted."
    )


def foreign_result_text(task_id: str) -> str:
    """Return the text of `async_task_result` for a session that is not a task of the caller."""
    return f"status: error\ntask_id: {one_line(task_id)}\n\nThis session exists, but it {_FOREIGN}"


def shorten_task(task: Task) -> Task:
    """Shorten result and error of a task where no tool saves the full text; the child's messages hold it."""
    error = (
        replace(task.error, message=shorten_middle(task.error.message, MOST_CHARACTERS))
        if task.error
        else None
    )
    return replace(
        task, result=shorten_middle(task.result, MOST_CHARACTERS) if task.result else task.result, error=error
    )


def sync_output_text(task: Task) -> str:
    """Return the output of the tool `task`: the outcome, then the metadata."""
    return f"{_outcome_text(task)}\n\n{metadata_text(task)}"


def _outcome_text(task: Task) -> str:
    if task.status == "completed":
        result = task.result or ""
        return envelope("task_result", result) if result.strip() else no_text_note(task)
    name, message = task_failure(task)
    return envelope("task_error", message, error_type=name, ended_by=task.ended_by or "")


def moved_text(task: Task) -> str:
    """Return the text for a sync task that was moved to the background."""
    return f"{_heading(task)}\nstatus: running\n\nThe task goes on in the background. {_WAIT}"


def started_text(task: Task, place: int | None) -> str:
    state = f"queued (place {place})" if place else "running"
    return f"{_heading(task)}\nbatch: {one_line(task.batch)}\nstatus: {state}\n\n{_WAIT}"


def resumed_text(task: Task, queued: bool) -> str:
    """Return the text for a resumed task; `queued`: its run had not ended."""
    count = "" if queued else f" (resume #{task.resumes})"
    then = "It is still at work and reads your prompt next." if queued else "It goes on with your prompt."
    return f"{_heading(task)}\nstatus: {task.status}{count}\n\n{then} {_WAIT}"


def _heading(task: Task) -> str:
    forked = "\nforked: it has a copy of your history" if task.forked else ""
    description = one_line(task.description)
    return f"task_id: {task.id}\nagent: {one_line(task.agent)}\ndescription: {description}{forked}"


def task_output_text(task: Task, progress: Progress | None, now: int) -> str:
    """Return the text of `asyncagents_output`: the progress of a live task, or how it ended."""
    if not task.live:
        return f"{_heading(task)}\n\n{sync_output_text(task)}"
    lines = "\n".join(_progress_lines(task, progress, now))
    return f"{_heading(task)}\n{lines}\n\nIt is still at work. {_WAIT}"


def _progress_lines(task: Task, progress: Progress | None, now: int) -> Iterator[str]:
    yield f"status: {task.status}"
    yield f"running_for: {duration(now - (task.began or task.created))}"
    if task.follow:
        yield "follow_up: queued, not read yet"
    if progress is None:
        return
    yield f"phase: {progress.phase}" + (f" (place {progress.place})" if progress.place else "")
    yield f"tool_calls: {tool_calls_text(progress.tool_calls, progress.by_name)}"
    if progress.last_tools:
        yield f"last_tools: {tool_names_text(progress.last_tools)}"
    if progress.updated:
        yield f"last_update: {duration(now - progress.updated)} ago"


def listing_text(tasks: Sequence[Task], now: int) -> str:
    """List all live tasks and the newest ended ones."""
    over = [task.id for task in tasks if not task.live]
    left_out = set(over[: max(0, len(tasks) - MOST_LISTED)])
    lines = [_listing_line(task, now) for task in tasks if task.id not in left_out]
    if left_out:
        lines.insert(0, f"Not shown: {_count_tasks(len(left_out))} that ended, the oldest ones.")
    return "\n".join(lines) or NO_TASKS


def _listing_line(task: Task, now: int) -> str:
    marks = (" (resumed)" if task.resumes else "") + (" (forked)" if task.forked else "")
    marks += " (gone)" if task.gone else ""
    age = duration(now - task.created)
    agent, description = one_line(task.agent), one_line(task.description)
    return f'{task.id}{marks} {task.status} @{agent} "{description}" started {age} ago'


def cancelled_text(tasks: Sequence[Task], already: Sequence[Task]) -> str:
    """Return the text for cancelled tasks; `already`: those that had ended before."""
    lines = []
    if tasks:
        lines.append(f"Cancelled {_count_tasks(len(tasks))}:")
        lines += [f'- {task.id} "{one_line(task.description)}"' for task in tasks]
    if already:
        lines.append("Ended before, and left as they are:")
        lines += [f'- {task.id} "{one_line(task.description)}" {task.status}' for task in already]
    return "\n".join(lines)


def cleared_text(count: int) -> str:
    """Return the text for cleared tasks; `count`: all launched tasks, sync ones included."""
    tasks = "task" if count == 1 else "tasks"
    return f"Cleared {count} {tasks}; what was still running has been stopped." if count else NO_TASKS


def _count_tasks(count: int) -> str:
    return f"{count} background {'task' if count == 1 else 'tasks'}"


def unknown_agent_text(name: str, available: Sequence[str]) -> str:
    why = f'Agent "{one_line(name)}" is unknown or primary and cannot be given a task.'
    if not available:
        return f"{why} No agents are available here: do the work yourself."
    return f"{why} Available agents: {', '.join(map(one_line, available))}."


def no_sandbox_text(agent: str, why: str) -> str:
    """Return why an external agent is not launched by an agent that may not edit."""
    return (
        f'Agent "{one_line(agent)}" is an external program, and where edits are denied it runs only with a '
        f"read-only project, which needs a sandbox: {why}. Nothing was launched. Ask the user to install "
        "bubblewrap, or do the work another way."
    )


def invalid_name_text(given: str) -> str:
    return (
        f'"{one_line(given)}" cannot be the name of an agent: a name is short, on one line, without markup.'
    )


def empty_task_text() -> str:
    return "A task needs a prompt and a description that say something."


def denied_text(agent: str) -> str:
    return f"Not allowed here: task {one_line(agent)}. The follow-up was not sent."


def fork_and_resume_text() -> str:
    return (
        "fork and resume are mutually exclusive: fork starts a new task with a copy of your history, "
        "resume goes on with an old one. No task was created; give one of the two."
    )


def task_gone_text(task_id: str) -> str:
    """Return the text for a task whose session was deleted."""
    return f"Task {one_line(task_id)} is gone: its session no longer exists. Start a new task."


def unreadable_task_text(task_id: str) -> str:
    task = one_line(task_id)
    return f"What became of task {task} cannot be read any more. Start a new one if it is still wanted."


def ambiguous_id_text(prefix: str, count: int) -> str:
    return f'"{one_line(prefix)}" fits {count} of your tasks: give more of the id.'


def no_such_task_text(task_id: str) -> str:
    """Return the text for an unknown id; it names no listing tool, as not every agent has one."""
    return f'You have no task "{one_line(task_id)}": give its id as the launch returned it.'


def foreign_task_text(task_id: str) -> str:
    """Return the text for a session that is not the caller's task, for all tools but `async_task_result`."""
    return f'Session "{one_line(task_id)}" exists, but it {_FOREIGN}'


def too_deep_text(limit: int) -> str:
    return f"No task was created: agents may delegate at most {limit} deep. Do this work yourself."


def too_many_text(limit: int) -> str:
    return (
        f"No task was created: a session may launch at most {limit}, and this one has. "
        "Resume a task that has ended, or do this work yourself."
    )


def cannot_work_text(why: str) -> str:
    return f"No task was created: {one_line(why, most=500)}"
