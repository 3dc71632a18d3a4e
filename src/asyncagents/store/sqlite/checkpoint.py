"""Moves what was committed from the log into the file, beside the writer: nobody who commits waits for it."""

import logging
import sqlite3
import threading
from collections.abc import Callable

from asyncagents.store.sqlite.connection import Connection

EVERY = 512
"""Verbs: some thousand pages each time. The writer's own connection does it only for a log that grew long."""

_log = logging.getLogger(__name__)


class Checkpoints:
    """A thread, from the first time that it is needed. It takes no lock that a writer or reader waits for."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._verbs = 0
        self._wanted = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def committed(self, verbs: int) -> None:
        """So many more; called by one thread only."""
        self._verbs += verbs
        if self._verbs < EVERY:
            return
        self._verbs = 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="asyncagents-checkpoint", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        self._over = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while self._wanted.wait() and not self._over:
            self._wanted.clear()
            self._checkpoint()
        self._drop()

    def _checkpoint(self) -> None:
        """What cannot be moved stays in the log, as safe as before."""
        try:
            self._connection = self._connection or self._connect()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            _log.warning("the log could not be moved into the database, it grows: %s", error)
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
