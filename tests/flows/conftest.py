"""The flows on whichever store: `ASYNCAGENTS_TEST_FLOWS=postgres` gives each test a database of its own."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.postgres import Server, a_database

POSTGRES = os.environ.get("ASYNCAGENTS_TEST_FLOWS") == "postgres"
OF_FILES = (
    "test_move_to_postgres.py",
    "test_a_call_of_an_older_program_runs_when_it_is_approved",
    "test_a_cursor_of_another_store_is_told_to_begin_afresh",
    "test_runtimes_in_one_process_share_nothing",
    "test_the_secret_of_a_call_is_in_no_file_no_event_and_no_log",
    "test_nobody_listens_to_the_bus_when_nobody_listens_to_everything",
)
"""They look into the file, or want two of them."""
BY_CURSOR = ("test_webhook_in.py",)
"""They see by the cursor that nothing was written; the queue's transactions move it there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if POSTGRES:
        for item in items:
            if any(name in item.nodeid for name in (*OF_FILES, *BY_CURSOR)):
                item.add_marker(pytest.mark.skip(reason="it is about a file of SQLite"))


@pytest.fixture(autouse=POSTGRES)
async def _on_postgres(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    server: Server = request.getfixturevalue("postgres_server")
    async with a_database(server) as dsn:
        monkeypatch.setenv("ASYNCAGENTS_STORE", dsn)
        yield
