"""A program: `tap.py LOG COMMAND…` starts an agent and passes its frames on, in both directions, into a log.

Each line of the log is `{"pid": …}` of an agent that was started, or `{"sender": …, "line": …}`.
"""

import json
import os
import subprocess
import sys
import threading
from typing import IO


def note(log: int, **what: object) -> None:
    """Append a line in one write: several agents may share a log."""
    os.write(log, json.dumps(what).encode() + b"\n")


def pump(log: int, sender: str, source: IO[bytes], target: IO[bytes]) -> None:
    """Pass lines on until one side is closed, then close the other."""
    try:
        for line in source:
            note(log, sender=sender, line=line.decode(errors="replace"))
            target.write(line)
            target.flush()
        target.close()
    except OSError:
        pass


def main(path: str, *command: str) -> int:
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    note(log, pid=agent.pid)
    threading.Thread(target=pump, args=(log, "client", sys.stdin.buffer, agent.stdin), daemon=True).start()
    pump(log, "agent", agent.stdout, sys.stdout.buffer)
    code = agent.wait()
    os._exit(code if code >= 0 else 128 - code)  # a thread still reads stdin


if __name__ == "__main__":
    main(*sys.argv[1:])
