"""Starts a PostgreSQL and stops it when the last process that holds its lock is gone, however it went.

Run as `python -m tests.support.postgres.watch FOLDER durable|fast`: returns when the server is up and has
left its record in the folder, and watches on in the background. While the record is there the server runs.
"""

import fcntl
import os
import sys
from pathlib import Path

from tests.support.postgres.cluster import create_cluster

HOLDERS = "holders"
RECORD = "server.json"


def main() -> None:
    home, kind = Path(sys.argv[1]), sys.argv[2]
    with (home / HOLDERS).open() as holders:
        cluster = create_cluster(durable=kind == "durable")
        try:
            (home / RECORD).write_text(cluster.to_json())
            _leave_the_foreground()
            fcntl.flock(holders, fcntl.LOCK_EX)
        finally:
            # Who waits for the lock now must not find the record of a server that is going.
            (home / RECORD).unlink(missing_ok=True)
            try:
                cluster.stop("immediate")
            finally:
                cluster.remove()


def _leave_the_foreground() -> None:
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


if __name__ == "__main__":
    main()
