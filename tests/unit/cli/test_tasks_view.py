"""Tasks as people see them: a tree that fits its place, and a line for each thing that happens to a task."""

import pytest
from msgspec.structs import replace

from asyncagents.cli.inspect.draw_task_tree import TreeStyle, draw_forest
from asyncagents.cli.inspect.read_task_tree import TaskNode
from asyncagents.cli.inspect.task_watch import StateChanges
from asyncagents.cli.run.result import is_by_person, last_answer, steps_of_turn
from asyncagents.cli.run.tool_view import TaskLines
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.notice import BatchCount, NoticeFormat, build_notice
from asyncagents.domain.task.task import TaskEnd
from asyncagents.domain.task.view import BackgroundTask, TaskProgress
from asyncagents.domain.why import Why, WhyCode
from tests.support.domain.event import SESSION, entry, session, step, text, user_message

UNTITLED = "New session - 2026-11-16T10:00:00.000Z"
TOKENS = Tokens(input=40, output=5, reasoning=0, cache=CacheTokens(read=0, write=0))
BEGAN, ENDED = "2026-11-16T10:00:00.000Z", "2026-11-16T10:01:05.000Z"


def task(number: int, *, ended: bool = False) -> BackgroundTask:
    return BackgroundTask(
        session_id=SessionId(f"ses_{number:026d}"),
        parent_session_id=SESSION,
        parent_message_id=MessageId("msg_1"),
        parent_agent="build",
        description=f"Read {number}",
        prompt="Read it.",
        agent="general",
        kind="background",
        status="completed" if ended else "running",
        started_at=BEGAN,
        completed_at=ENDED if ended else None,
        batch_id="bat_1_1",
        resume_count=0,
        is_forked=False,
    )


def node(one: BackgroundTask, *below: TaskNode, code: WhyCode = "working") -> TaskNode:
    live = one.status in ("running", "resumed")
    why = Why(session_id=one.session_id, code=code, sentence="So it is.") if live else None
    info = session(one.session_id, one.description, parent_id=SESSION, agent=one.agent)
    return TaskNode(session=info, task=one, why=why, below=below)


def root(*below: TaskNode) -> TaskNode:
    why = Why(
        session_id=SESSION, code="tasks", sentence="It rests.", on=tuple(each.session.id for each in below)
    )
    return TaskNode(session=session(SESSION, "Ship it", agent="build"), why=why, below=below)


def test_the_tree_shows_all_running_tasks_and_the_newest_ended_ones() -> None:
    nodes = [node(task(0)), *(node(task(number, ended=True)) for number in range(1, 9))]
    lines = draw_forest([root(*nodes)], TreeStyle())
    assert [line.text.split("  ")[0] for line in lines] == [
        "Ship it", "├─ … 3 more have ended", "├─ Read 0", *(f"├─ Read {n}" for n in (4, 5, 6, 7)), "└─ Read 8"
    ]  # fmt: skip
    assert [line.faint for line in lines] == [False, True, False, *[True] * 5]
    assert len(draw_forest([root(*nodes)], TreeStyle(everything=True))) == 10


def test_an_ended_task_stays_in_the_tree_while_a_child_task_runs() -> None:
    busy = node(task(1, ended=True), node(task(2)))
    others = [node(task(number, ended=True)) for number in range(3, 10)]
    lines = draw_forest([root(busy, *others)], TreeStyle())
    found = [line for line in lines if "Read 1" in line.text or "Read 2" in line.text]
    assert [line.faint for line in found] == [False, False]


def test_a_tree_fits_its_width_and_keeps_the_session_ids() -> None:
    nodes = [root(node(task(1)), node(task(2, ended=True)))]
    for width in (60, 80, 100):
        lines = [line.text for line in draw_forest(nodes, TreeStyle(), width)]
        assert max(map(len, lines)) <= width
        assert all("ses_" in line for line in lines)
    assert all("general" in line.text for line in draw_forest(nodes, TreeStyle())[1:])


def test_a_row_of_a_task_shows_details_of_its_state() -> None:
    progress = TaskProgress(
        started_at=BEGAN,
        tool_calls=2,
        tool_calls_by_name={"bash": 2},
        last_tools=("read", "bash"),
        last_update=BEGAN,
        tokens=TOKENS,
        cost=0.5,
        place=3,
    )
    queued, tool = (node(replace(task(1), progress=progress), code=code) for code in ("queued", "tool"))
    ended = node(replace(task(2, ended=True), status="cancelled", ended_by="deadline"))
    text = "\n".join(line.text for line in draw_forest([root(queued, tool, ended)], TreeStyle()))
    for words in (
        "waits for 3 tasks",
        "queued, place 3",
        "runs bash",
        "2 tools",
        "cancelled by deadline",
        "1m 5s",
        "45 tokens",
        "$0.5000",
    ):
        assert words in text


def test_a_state_change_is_printed_once() -> None:
    told: list[str] = []
    changes = StateChanges(told.append)
    for now in (task(1), task(1), task(1, ended=True), task(1, ended=True)):
        changes.show([root(node(now))])
    assert [line.partition(",")[0] for line in told] == [
        "Ship it (build): waits for 1 task", "Read 1 (general): streaming", "Read 1 (general): completed"
    ]  # fmt: skip


def test_escape_sequences_in_names_are_removed() -> None:
    told: list[str] = []
    steering = "\x1b]0;mine\x07\x1b[2J"
    named = replace(task(1), agent=f"general{steering}", description=f"Read{steering}")
    untitled = replace(root(node(named)), session=session(SESSION, UNTITLED, agent=f"build{steering}"))
    StateChanges(told.append).show([untitled])
    told += [line.text for line in draw_forest([untitled], TreeStyle())]
    told += [line.text for line in TaskLines().lines_for(named)]
    assert len(told) == 5
    assert [line for line in told if "\x1b" in line or "\x07" in line] == []


def test_a_task_is_printed_when_it_begins_and_when_it_ends() -> None:
    lines = TaskLines()
    again = replace(task(1), status="resumed", resume_count=1)
    failed = replace(task(1, ended=True), status="error", resume_count=1, error="APIError: Nope.")
    heard = [task(1), task(1), task(1, ended=True), task(1), again, failed, failed]
    said = [line.text for each in heard for line in lines.lines_for(each)]
    named = 'task "Read 1" (general)'
    assert said == [
        f"{named} launched, {task(1).session_id}",
        f"{named} completed after 1m 5s, 0 tools",
        f"{named} resumed, {task(1).session_id}",
        f"{named} failed after 1m 5s: APIError: Nope.",
    ]


def test_a_task_known_before_is_printed_only_when_it_ends() -> None:
    lines = TaskLines()
    lines.mark_known([task(1), task(2, ended=True)])
    heard = [task(1), task(2, ended=True), task(1, ended=True)]
    assert [line.text.split()[1] for each in heard for line in lines.lines_for(each)] == ['"Read']


def test_steps_after_a_notice_belong_to_the_prompt_before_it() -> None:
    end = TaskEnd(
        id=SessionId("ses_2"), run=0, description="A", agent="general", batch="b", status="completed", ms=1
    )
    notice = build_notice([end], {"b": BatchCount(1, 1)}, 0, NoticeFormat())
    parts = [text("msg_3", notice.visible[0]), text("msg_3", notice.hidden, id="prt_2", synthetic=True)]
    woken = entry(user_message("msg_3"), *parts)
    asks = entry(user_message("msg_1"), text("msg_1", "Fan out"))
    first, last = (entry(step(each, done=True), text(each, each)) for each in ("msg_2", "msg_4"))
    others = [
        entry(user_message("msg_5"), text("msg_5", "Well?")),
        entry(step("msg_6"), text("msg_6", "Yes.")),
    ]
    entries = [asks, first, woken, last, *others]

    assert is_by_person(woken) is False
    assert is_by_person(asks) is True
    assert last_answer(entries, first) == last
    steps = [info.id for info in steps_of_turn(entries, last, MessageId("msg_1"))]
    assert steps == ["msg_2", "msg_4"]


def test_a_prompt_that_quotes_a_notice_counts_as_written_by_a_person() -> None:
    end = TaskEnd(id=SessionId("s"), run=0, description="A", agent="g", batch="b", status="completed", ms=1)
    hidden = build_notice([end], {"b": BatchCount(1, 1)}, 0, NoticeFormat()).hidden
    assert is_by_person(entry(user_message("msg_1"), text("msg_1", hidden)))


@pytest.mark.spec("Z-03")
def test_a_sync_task_is_marked_in_the_tree_and_as_it_changes() -> None:
    told: list[str] = []
    waited_for = node(replace(task(1), kind="sync"))
    StateChanges(told.append).show([root(waited_for)])
    lines = [line.text for line in draw_forest([root(waited_for, node(task(2)))], TreeStyle())]
    assert [line.partition(" (general)")[0] for line in told[1:]] == ["Read 1 (sync)"]
    assert ["(sync)" in line for line in lines] == [False, True, False]


def test_the_line_for_hidden_tasks_is_in_singular_or_plural() -> None:
    for count, words in ((6, "… 1 more has ended"), (7, "… 2 more have ended")):
        ended = [node(task(number, ended=True)) for number in range(count)]
        assert words in "\n".join(line.text for line in draw_forest([root(*ended)], TreeStyle()))


@pytest.mark.spec("Z-05")
def test_a_row_shows_the_figures_of_the_latest_run() -> None:
    progress = TaskProgress(
        started_at="2026-11-16T10:01:00.000Z",
        tool_calls=1,
        tool_calls_by_name={"bash": 1},
        last_tools=("bash",),
        last_update=ENDED,
        tokens=TOKENS,
        cost=0.0,
        duration=5_000,
    )
    line = draw_forest([root(node(replace(task(1, ended=True), progress=progress)))], TreeStyle())[1].text
    assert "  1 tool " in line
    assert "  45 tokens" in line
    assert "  5s  " in line
