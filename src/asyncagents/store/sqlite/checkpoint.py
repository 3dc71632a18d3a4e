"""Runs WAL checkpoints in a thread of their own, so that no commit waits for one."""

import logging
import sqlite3
import threading
from collections.abc import Callable

from asyncagents.store.sqlite.connection import Connection

CHECKPOINT_VERBS = 512
"""Verbs between checkpoints: a few thousand pages. The writer itself checkpoints only a long log."""

_log = logging.getLogger(__name__)


class Checkpointer:
    """Starts its thread when first needed. Its passive checkpoints block no writer and no reader."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._verbs = 0
        self._wanted = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def count_verbs(self, verbs: int) -> None:
        """Count committed verbs and request a checkpoint when due; called by one thread only."""
        self._verbs += verbs
        if self._verbs < CHECKPOINT_VERBS:
            return
        self._verbs = 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="asyncagents-checkpoint", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        self._over = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._wanted.wait() and not self._over:
            self._wanted.clear()
            self._checkpoint()
        self._drop()

    def _checkpoint(self) -> None:
        """Checkpoint as far as possible; the rest stays in the log, as durable as before."""
        try:
            self._connection = self._connection or self._connect()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            _log.warning("database action=checkpoint: failed, the write-ahead log grows: %s", error)
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
