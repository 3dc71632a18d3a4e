"""What one subscriber of the board makes of reads: its own, and those that all subscribers share."""

import asyncio

from asyncagents.domain.id import SessionId
from asyncagents.domain.task.board_feed import (
    BoardChanges,
    BoardCursor,
    BoardEventType,
    TaskChange,
    TaskProgressed,
    parse_board_cursor,
)
from asyncagents.engine.event.task_stream import BoardSubscriber, BoardUpdate


def at(rev: int, *, level: int | None = None, base: int | None = None) -> BoardCursor:
    return BoardCursor(
        epoch="e", rev=rev, level=rev if level is None else level, base=rev if base is None else base
    )


def change(
    name: str, rev: int, became: BoardEventType = "task.updated", *, born: int = 1, done: int = 1
) -> TaskChange:
    body = f"{name}@{rev}".encode()
    return TaskChange(task_id=SessionId(name), rev=rev, born=born, done=done, became=became, body=body)


def told(
    subscriber: BoardSubscriber, *changes: TaskChange, upto: int, more: bool = False, **moved: str
) -> list[str]:
    """Types and bodies."""
    news = subscriber.apply(
        BoardChanges(
            point=at(upto, level=upto if moved else 0),
            changes=changes,
            moved=tuple(TaskProgressed(SessionId(name), body.encode()) for name, body in moved.items()),
            more=more,
        )
    )
    return [f"{each.type.removeprefix('task.')} {each.body.decode()}" for each in news]


def test_changes_before_the_cursor_of_a_subscriber_are_left_out() -> None:
    subscriber = BoardSubscriber(at(10))
    assert told(subscriber, change("a", 9), change("b", 10), upto=10, c="old") == []
    assert subscriber.point == at(10)


def test_a_subscriber_takes_the_changes_of_a_later_read() -> None:
    subscriber = BoardSubscriber(at(10))
    heard = told(subscriber, change("a", 9, born=9), change("b", 12, born=10), upto=12, c="new")
    assert heard == ["updated b@12", "updated a@9", "updated new"], "a may have done more than its row tells"
    assert subscriber.point == at(12)


def test_a_task_created_and_ended_between_reads_gives_both_events_once() -> None:
    subscriber = BoardSubscriber(at(10))
    ended = change("a", 14, "task.completed", born=11, done=14)
    assert told(subscriber, ended, upto=14) == ["created a@14", "completed a@14"]
    read = change("a", 20, "task.completed", born=11, done=14)
    assert told(subscriber, read, upto=20) == ["updated a@20"]


def test_a_read_in_pieces_reports_a_creation_that_an_earlier_piece_skipped() -> None:
    subscriber = BoardSubscriber(at(0))
    assert told(subscriber, change("b", 5, born=5), upto=5, more=True) == ["created b@5"]
    late = change("a", 9, "task.error", born=2, done=9)
    assert told(subscriber, change("b", 8, born=5), late, upto=9) == [
        "updated b@8",
        "created a@9",
        "error a@9",
    ]


def test_the_cursor_of_an_event_covers_only_events_that_were_sent() -> None:
    subscriber = BoardSubscriber(at(3, level=2))
    board_changes = BoardChanges(
        point=at(9, level=9),
        changes=(
            change("a", 7, born=5),
            change("b", 7, "task.error", born=5, done=7),
            change("c", 8, born=1),
        ),
        moved=(TaskProgressed(SessionId("d"), b"d"), TaskProgressed(SessionId("e"), b"e")),
    )
    news = list(subscriber.apply(board_changes))
    assert [(each.type, parse_board_cursor(each.cursor)) for each in news] == [
        ("task.created", at(3, level=2)),
        ("task.created", at(3, level=2)),
        ("task.error", at(7, level=2, base=3)),
        ("task.updated", at(9, level=2)),
        ("task.updated", at(9, level=2)),
        ("task.updated", at(9)),
    ]
    assert news[-1].cursor == "e-0-9"


async def test_a_slow_subscriber_is_cut_off_and_holds_no_changes() -> None:
    subscriber = BoardSubscriber(at(0), size=2)
    subscriber.attach()
    looks = [BoardChanges(point=at(rev), changes=(change("a", rev),)) for rev in (1, 2, 3)]
    assert [subscriber.push(board_changes) for board_changes in looks] == [True, True, False]
    async with asyncio.timeout(5):
        assert await subscriber.next() is None
    assert subscriber.point == at(0)


async def test_a_subscriber_with_an_empty_queue_takes_a_read_of_any_length() -> None:
    subscriber = BoardSubscriber(at(0), size=2)
    subscriber.attach()
    long = BoardChanges(point=at(9), changes=tuple(change("a", rev) for rev in range(1, 9)))
    assert subscriber.push(long)
    assert await subscriber.next() is long


def test_a_reset_moves_a_subscriber_to_its_cursor() -> None:
    subscriber = BoardSubscriber(at(3))
    assert subscriber.reset_to(BoardChanges(point=at(9), reset=True)) == BoardUpdate("e-0-9", "reset", b"{}")
    assert told(subscriber, change("a", 12, born=10), upto=12) == ["created a@12"]
