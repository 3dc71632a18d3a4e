"""`wait`: a timer that is stored with the open call, so that no process need run until it is over."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.call import WAIT_OVER, Completed
from asyncagents.domain.call.reply import utc_time
from asyncagents.domain.clock import Clock
from asyncagents.domain.task.summary import duration
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description

YEAR = 366 * 24 * 3600
TIME_HINT = 'write it with its offset from UTC, such as "2026-05-01T09:00:00+02:00" or "2026-05-01T07:00:00Z"'


class WaitArgs(Struct, frozen=True, kw_only=True):
    seconds: Annotated[float | None, Meta(description="How long, from one second up to a year.")] = None
    until: Annotated[str | None, Meta(description="A time in ISO 8601 with its offset from UTC.")] = None
    reminder: Annotated[str, Meta(description="What to tell you then.", max_length=4000)] = ""


def wait(clock: Clock | None = None) -> Tool[WaitArgs]:
    """Create the tool `wait`, a timer that outlives the process: `open_runtime(tools=[wait_tool()])`.

    It needs no permission; `coding` adds it already.
    """
    ticking = clock or SystemClock()

    async def plan(args: WaitArgs, context: ToolContext) -> tuple[Ask, ...]:
        return ()

    async def run(args: WaitArgs, context: ToolContext) -> Pending | Completed:
        now = ticking.now()
        due = _due(args, now)
        if due <= now:
            return _wait_result(args, f"{WAIT_OVER} {utc_time(due)} was already {duration(now - due)} ago.")
        if due - now > YEAR * 1000:
            raise ToolError("A wait takes a year at most; wait for a part of it, and then again.")
        over = _wait_result(args, f"{WAIT_OVER} It was until {utc_time(due)}.")
        return Pending(kind="wait", due=due, note=_note(args, due), on_due=over)

    return Tool("wait", WaitArgs, run, plan=plan, effect="none", description=load_description("wait"))


def _due(args: WaitArgs, now: int) -> int:
    match args:
        case WaitArgs(seconds=float() | int() as seconds, until=None):
            if not 1 <= seconds <= YEAR:
                raise ToolError(f"seconds is from 1 to {YEAR}, a year.")
            return now + int(seconds * 1000)
        case WaitArgs(seconds=None, until=str(until)):
            return _parse_moment(until.strip())
        case _:
            raise ToolError("Give either seconds or until.")


def _parse_moment(text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(f"{text[:60]!r} is no time: {TIME_HINT}.") from None
    if when.tzinfo is None:
        raise ToolError(f"{text[:60]!r} could be in any time zone: {TIME_HINT}.")
    return int((when - _EPOCH) / timedelta(milliseconds=1))


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _note(args: WaitArgs, due: int) -> str:
    return f"until {utc_time(due)}{f': {args.reminder}' if args.reminder else ''}"


def _wait_result(args: WaitArgs, text: str) -> Completed:
    reminded = f"{text}\n\nYou wanted to be told: {args.reminder}" if args.reminder else text
    return Completed(reminded, title="The wait is over")
