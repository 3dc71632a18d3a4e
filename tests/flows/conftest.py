"""The flows on whichever store: `ASYNCAGENTS_TEST_FLOWS=postgres` gives each test a database of its own."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.postgres.database import Server, a_database

POSTGRES = os.environ.get("ASYNCAGENTS_TEST_FLOWS") == "postgres"
OF_FILES = (
    "test_move_to_postgres.py",
    "test_a_call_of_an_older_program_runs_when_it_is_approved",
    "test_a_cursor_of_another_store_gets_a_reset_and_a_snapshot",
    "test_runtimes_in_one_process_share_nothing",
    "test_the_secret_of_a_call_is_in_no_file_no_event_and_no_log",
    "test_the_broadcast_subscribes_to_the_bus_only_while_it_has_listeners",
    "test_unreadable_task.py",
    "test_transfer.py",
    "test_transfer_page.py",
    "test_transfer_tasks.py",
    "test_waiting_cost.py",
    "test_a_session_that_was_imported_still_asks_and_is_answered_there",
    "test_an_unreadable_session_does_not_affect_readiness_or_other_sessions",
    "test_an_unreadable_session_does_not_hide_events_of_another",
    "test_a_session_that_cannot_be_read_is_no_work_and_stays",
    "test_a_store_that_fails_is_no_work",
    "test_a_listener_after_the_replay_period_gets_no_earlier_events",
    "test_the_token_is_in_no_log_response_repr_or_command_line",
)
"""They look into the file, or want two of them."""
BY_TASKS = (
    "test_sessions_beyond_the_number_of_places_run_when_one_is_free",
    "test_a_disconnect_behind_a_pipelined_stream_leaves_nothing_running",
    "test_a_disconnect_during_a_wait_for_an_answer_keeps_only_the_prompt",
)
"""They count what is at work in the process: the queue has tasks of its own, and its own number of places."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if POSTGRES:
        for item in items:
            if any(name in item.nodeid for name in (*OF_FILES, *BY_TASKS)):
                item.add_marker(pytest.mark.skip(reason="it is about a file of SQLite"))


@pytest.fixture(autouse=POSTGRES)
async def _on_postgres(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    server: Server = request.getfixturevalue("postgres_server")
    async with a_database(server) as dsn:
        monkeypatch.setenv("ASYNCAGENTS_STORE", dsn)
        yield
