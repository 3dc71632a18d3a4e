"""What the simulation did to SQLite, done to PostgreSQL: the same answers, events and rows."""

import asyncio
from collections.abc import Callable

import pytest

from tests.simulation.externals import EXTERNALS
from tests.simulation.logical import REVISIONS, differences, in_postgres, in_sqlite
from tests.simulation.parks import PARKS
from tests.simulation.replay import replay, replay_on, replay_seeds
from tests.simulation.shells import SHELLS
from tests.simulation.stage import Violation
from tests.simulation.talks import TALKS
from tests.simulation.tape import Recorded, recorded
from tests.simulation.trees import TREES
from tests.simulation.undos import UNDOS
from tests.support.postgres.database import Server, a_database

SEEDS = {
    0: (23, 46, 61),
    TREES: (11, 27, 47),
    PARKS: (11, 45, 47, 121),
    SHELLS: (1, 51),
    UNDOS: (6, 14, 22),
    TALKS: (33, 41),
    EXTERNALS: (0, 1),
}
"""Of each kind of worlds some in which much happens that nothing else does."""
KINDS = {
    0: "Store.answer",
    TREES: "Store.resume",
    PARKS: "DeliveryStore.end_attempt",
    SHELLS: "ActionStore.admit_shell",
    UNDOS: "RevertStore.mark_undone",
    TALKS: "ConversationStore.copy_session",
    EXTERNALS: "ExternalStore.observe",
}
FEW_CALLS = 40
CHANGES = (
    "UPDATE message SET info = info || '\\x20' WHERE id = (SELECT MIN(id) FROM message)",
    "UPDATE message SET hidden = 1 - hidden WHERE id = (SELECT MIN(id) FROM message)",
    "UPDATE message SET rev = rev + 1000000 WHERE id = (SELECT MIN(id) FROM message)",
    "DELETE FROM part WHERE message_id = (SELECT MIN(id) FROM message)",
    "UPDATE session SET steps = steps + 1",
    "INSERT INTO todo VALUES ('ses_1', '[]', 0)",
    "CREATE TABLE unknown (id INT)",
)
ALL_REVISIONS_MOVED = "; ".join(
    f"UPDATE {table} SET {column} = {column} + 7 WHERE {column} <> 0"  # noqa: S608  names of ours
    for table, columns in REVISIONS.items()
    for column in columns
)


@pytest.mark.spec("X-10", "X-11")
@pytest.mark.parametrize("world", SEEDS)
def test_a_log_of_store_calls_gives_the_same_on_postgres(
    postgres_server: Server, world: int, record_property: Callable[[str, object], None]
) -> None:
    done = replay_seeds(postgres_server, [world + seed for seed in SEEDS[world]])
    record_property("replayed store calls", done.calls)
    record_property("replayed rows", done.rows)
    assert done.calls > FEW_CALLS * done.seeds, "hardly anything happens in these worlds any more"
    assert done.crashes > 0, "nobody crashes in these worlds any more"
    assert KINDS[world] in done.kinds


@pytest.mark.spec("X-10", "X-11")
def test_a_replay_without_the_last_store_call_is_detected(postgres_server: Server) -> None:
    """The last that wrote: no later call can stumble over it, so the rows must tell."""
    with recorded(46) as record:
        last = max(number for number, taken in enumerate(record.log) if taken.said)
        short = Recorded(record.path, record.log[:last], record.crashes, record.digest)
        with pytest.raises(Violation, match=r"differences in what is there, as .*session ses_"):
            asyncio.run(replay_on(postgres_server, short))


@pytest.mark.spec("X-10", "X-11")
def test_a_different_row_or_order_of_revisions_is_detected(postgres_server: Server) -> None:
    async def check(record: Recorded) -> None:
        async with a_database(postgres_server) as dsn:
            await replay(record, dsn)
            before = in_sqlite(record.path)
            for change in CHANGES:
                assert differences(before, await in_postgres(dsn, after=change)), change
            moved = await in_postgres(dsn, after=ALL_REVISIONS_MOVED)
            assert not differences(before, moved), "it is their order that counts"

    with recorded(46) as record:
        asyncio.run(check(record))
