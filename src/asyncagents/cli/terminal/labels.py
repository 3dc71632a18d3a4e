"""Labels, counts and durations of sessions and tasks, for people."""

from datetime import datetime

from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.conversation.session import Session, is_default_title
from asyncagents.domain.task.summary import duration
from asyncagents.domain.task.view import BackgroundTask

LABEL = 40


def session_label(session: Session) -> str:
    """Return the title of a session; its agent or id if the title is the default one."""
    if is_default_title(session.title):
        return one_line(session.agent or session.id, LABEL)
    return one_line(session.title, LABEL)


def tools_text(task: BackgroundTask) -> str:
    """Count the tools of the latest run, or of all runs if no more is known."""
    if task.progress is None and task.totals is not None:
        return f"{count_text(task.totals.tool_calls, 'tool')} in all"
    return count_text(task.progress.tool_calls if task.progress else 0, "tool")


def count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def run_duration(task: BackgroundTask, now: int) -> str:
    """Format how long the latest run took, or has taken so far."""
    end = parse_time(task.completed_at) if task.completed_at else now
    return duration(end - parse_time(task.progress.started_at if task.progress else task.started_at))


def parse_time(text: str) -> int:
    """Parse ISO 8601 into ms since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
