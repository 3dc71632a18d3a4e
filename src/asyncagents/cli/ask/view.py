"""Renders asks for the person who decides them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from asyncagents.cli.ask.always_scope import describe_always
from asyncagents.cli.terminal.labels import session_label
from asyncagents.cli.terminal.screen import ScreenLine, one_line, plain
from asyncagents.cli.terminal.tool_line import diff_lines, tool_call_text
from asyncagents.domain.call.ask import PermissionRequest, Question
from asyncagents.domain.call.reply import utc_time
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.conversation.session import Session

MOST_HEAD = 400
MOST_LINES = 60
LONGEST_CHOICE = 30
"""Characters of what `always` allows, in the line of choices."""


def ask_lines(open_call: OpenCall) -> list[ScreenLine]:
    """Render which tool asks for what, with all that helps to decide; options of questions come later."""
    ask = open_call.permission
    head = f"{open_call.tool} asks{f' {open_call.who}' if open_call.who else ''}"
    if ask is not None:
        head = f"{head} for the permission {ask.permission!r}: {', '.join(ask.patterns)}"
    if open_call.due is not None:
        head = f"{head}, until {utc_time(open_call.due)}"
    lines = [ScreenLine(one_line(head, MOST_HEAD), "loud")]
    if len(open_call.lineage) > 1:
        lines.append(ScreenLine(f"  for {lineage_text(open_call.lineage)}", "loud"))
    if ask is None:
        return lines
    return [*lines, *_cut(_request_lines(open_call, ask)), *always_lines(ask)]


def _cut(wanted: Iterable[ScreenLine]) -> list[ScreenLine]:
    lines = list(wanted)
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], ScreenLine(f"  … {len(lines) - MOST_LINES} more lines: s shows all", "loud")]


def full_lines(open_call: OpenCall, request: PermissionRequest) -> list[ScreenLine]:
    """Render all that an approval would cover, uncut."""
    patterns = [ScreenLine(f"  {plain(pattern)}", "loud") for pattern in request.patterns]
    given = [ScreenLine(f"  {key} = {value!r}", "loud") for key, value in open_call.input.items()]
    return [*patterns, *_request_lines(open_call, request), *given]


def _request_lines(open_call: OpenCall, request: PermissionRequest) -> Iterator[ScreenLine]:
    command, diff = request.metadata.get("command"), request.metadata.get("diff")
    if request.permission == "doom_loop":
        yield ScreenLine("  the agent repeats the same call; it may be stuck in a loop", "loud")
    if isinstance(workdir := request.metadata.get("workdir"), str):
        yield ScreenLine(f"  in {one_line(workdir)}", "loud")
    if isinstance(command, str):
        yield from (ScreenLine(f"  $ {line}", "loud") for line in plain(command).split("\n"))
    yield from _reason_lines(request.metadata)
    if isinstance(diff, str) and diff:
        yield from diff_lines(diff, most=None)
    elif not isinstance(command, str):
        yield ScreenLine(f"  {tool_call_text(open_call.tool, open_call.input)}", "loud")


def _reason_lines(metadata: dict[str, Any]) -> Iterator[ScreenLine]:
    """Render why rules do not decide: an unclear command, or a guarded place."""
    for word, key in (("unclear", "reasons"), ("guarded", "guarded")):
        reasons = metadata.get(key)
        for reason in reasons if isinstance(reasons, list) else ():
            yield ScreenLine(f"  {word}: {one_line(str(reason))}", "loud")


def choice_prompt(request: PermissionRequest) -> str:
    """Return the prompt line; it fits 80 columns with room for the answer."""
    always = f"[a] always ({describe_always(request)})  " if request.always and not _is_long(request) else ""
    always = always or ("[a] always  " if request.always else "")
    return f"[y] once  {always}[n] no  [?] more > "


def always_lines(request: PermissionRequest) -> list[ScreenLine]:
    """Render what `always` would allow, if it is too long for the line of choices."""
    if not request.always or not _is_long(request):
        return []
    return [ScreenLine(f"  always would allow {describe_always(request)}", "loud")]


def _is_long(request: PermissionRequest) -> bool:
    return len(describe_always(request)) > LONGEST_CHOICE


def help_lines(request: PermissionRequest) -> list[ScreenLine]:
    """Explain every key."""
    keys = {
        "y": "yes, this once",
        "a": f"yes, and from now on in this project: {describe_always(request)}" if request.always else "",
        "n": "no; `n use tabs` tells the model why, and it goes on",
        "e": "yes, with other arguments: edit them",
        "s": "show all that this is about",
        "q": "leave it open and quit; `asyncagents answer` answers it later (also Ctrl-D)",
    }
    return [ScreenLine(f"  {key}  {words}", "loud") for key, words in keys.items() if words]


def question_lines(question: Question) -> list[ScreenLine]:
    lines = [ScreenLine(plain(text), "loud") for text in question.question.splitlines()]
    for number, option in enumerate(question.options, 1):
        about = f": {option.description}" if option.description else ""
        lines.append(ScreenLine(f"  {number}. {one_line(f'{option.label}{about}')}", "loud"))
    return lines


def question_prompt(question: Question, *, decision: bool = False) -> str:
    if decision:
        return "a number (q: quit) > "
    if not question.options:
        return "your answer (q: quit, n: do not answer) > "
    how = "numbers, with commas" if question.multiple else "a number"
    own = "" if question.custom is False else ", or words of your own"
    return f"{how}{own} (q: quit, n: do not answer) > "


def lineage_text(lineage: Sequence[Session]) -> str:
    return " > ".join(session_label(session) for session in lineage)
