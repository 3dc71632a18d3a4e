"""A program: a process of a fork server in place of itself, for what is started by a command line.

Its arguments: the socket of the fork server, the module, and the words for it. It has no imports of ours:
its start is all that it costs. If it dies, so does the process that it stands for.
"""

import json
import os
import socket
import sys


def main(name: str, module: str, *words: str) -> None:
    order = {"module": module, "words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as master:
        master.connect(f"\0{name}")
        socket.send_fds(master, [b"."], [0, 1, 2])
        master.sendall(json.dumps(order).encode() + b"\n")
        for fd in (0, 1, 2):
            os.close(fd)
        with master.makefile("rb") as answers:
            answers.readline()  # its number
            code = int(answers.readline() or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
