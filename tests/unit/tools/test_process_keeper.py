"""The keeper of a command: whatever the command leaves, and whoever is killed, nothing of it survives."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from asyncagents.tools.process.processes import Processes, ProcessResult
from tests.support.hostile.daemon import DAEMONS, GHOST, daemon_command, survivors
from tests.support.soak import some_of
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"),
]

PATH = os.environ.get("PATH", os.defpath)
ALL = {**DAEMONS, "a ghost": GHOST}

# What each of these has: a pipe that is open as long as one of them lives, whoever could still be seen.
BEGIN = """
import ctypes, os, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pipe = os.open(sys.argv[2], os.O_WRONLY)
def ready():
    os.write(pipe, b"ready")
    open(sys.argv[3], "w").close()
"""

# Without its first thread it looks dead, and nothing is known of it.
HEADLESS = """
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for stream in range(3):
    os.close(stream)
def live():
    while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    ready()
    time.sleep(60)
threading.Thread(target=live).start()
ctypes.CDLL(None).pthread_exit(None)
"""

# Two hundred that sleep and do not listen.
MANY = """
for _ in range(200):
    if not os.fork():
        os.setsid()
        time.sleep(60)
        os._exit(0)
ready()
time.sleep(60)
"""

# Eight that are never where they were last seen: each forks and is gone, for at most twenty seconds.
HOPPERS = """
until = time.monotonic() + 20
for _ in range(8):
    if not os.fork():
        os.setsid()
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
        os._exit(0)
ready()
time.sleep(60)
"""

# A process like ours, that is to be killed while its commands run.
OURS = """
import asyncio, sys
from pathlib import Path
from asyncagents.tools.process.processes import Processes

async def main(path, folder, *commands):
    processes = Processes({"PATH": path}, folder=Path(folder), namespace=False)
    async with asyncio.TaskGroup() as group:
        for command in commands:
            group.create_task(processes.run(("bash", "-c", command), cwd=Path("/"), timeout=600))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def token(tmp_path: Path) -> Iterator[str]:
    """By it all that a test starts is known; nothing of it is left, not even by a test that fails."""
    word = f"token-{tmp_path.name}-{os.getpid()}"
    yield word
    left = survivors(word)
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(int(each.partition(" ")[0]), signal.SIGKILL)
    assert left == []


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes({"PATH": PATH}, folder=tmp_path / "output", namespace=False)


async def bash(processes: Processes, script: str, *, timeout: float = 60) -> ProcessResult:
    return await processes.run(("bash", "-c", script), cwd=Path("/"), timeout=timeout)


async def until_all_run(folder: Path, number: int) -> None:
    """A process of its own makes each file."""
    await wait_until(lambda: all((folder / f"up{each}").exists() for each in range(number)))


def daemons(folder: Path, token: str, then: str) -> list[str]:
    return [
        daemon_command(each, up=folder / f"up{number}", token=token, then=then)
        for number, each in enumerate(ALL.values())
    ]


def zombies() -> list[str]:
    """Children of ours that are dead and were never counted."""
    mark = f" Z {os.getpid()} ".encode()
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if mark in each.read_bytes():
                found.append(each.parent.name)
    return found


async def test_containment_names_the_method_in_use(tmp_path: Path, processes: Processes) -> None:
    assert await processes.containment() == "supervisor"
    alone = Processes({"PATH": PATH}, folder=tmp_path, namespace=False, supervisor=False)
    assert await alone.containment() == "session"


@pytest.mark.spec("A-05")
async def test_no_daemon_survives_a_command_that_ends_well(
    tmp_path: Path, processes: Processes, token: str
) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bash(processes, each)) for each in daemons(tmp_path, token, "exit 0")]
    assert survivors(token) == []
    assert [(task.result().exit_code, task.result().timed_out) for task in tasks] == [(0, False)] * len(ALL)


@pytest.mark.spec("A-05")
async def test_ending_a_daemon_does_not_count_for_the_timeout_of_its_command(
    tmp_path: Path, processes: Processes, token: str
) -> None:
    """It is given longer to end than the command had."""
    result = await bash(
        processes, daemon_command(GHOST, up=tmp_path / "up", token=token, then="exit 3"), timeout=1.9
    )
    assert survivors(token) == []
    assert result.exit_code == 3
    assert result.timed_out is False


@pytest.mark.spec("A-05")
async def test_no_daemon_survives_a_timeout(tmp_path: Path, processes: Processes, token: str) -> None:
    """A longer timeout follows where a busy machine did not let all of them begin."""
    ended: list[ProcessResult] = []
    for timeout in (5, 20, 60):
        scripts = daemons(tmp_path, token, "echo up; sleep 600")
        ended = await asyncio.gather(*(bash(processes, each, timeout=timeout) for each in scripts))
        assert survivors(token) == []
        if all(each.output for each in ended):
            break
    assert [(each.timed_out, each.output[:3]) for each in ended] == [(True, "up\n")] * len(ALL)


@pytest.mark.spec("A-05")
async def test_no_daemon_survives_a_cancel(tmp_path: Path, processes: Processes, token: str) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bash(processes, each)) for each in daemons(tmp_path, token, "sleep 600")]
        await until_all_run(tmp_path, len(ALL))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert survivors(token) == []
    assert all(task.cancelled() for task in tasks)


@pytest.mark.spec("A-05")
async def test_no_daemon_survives_the_sudden_death_of_our_process(tmp_path: Path, token: str) -> None:
    scripts = daemons(tmp_path, token, "sleep 600")
    ours = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OURS, PATH, str(tmp_path / "output"), *scripts
    )
    try:
        await until_all_run(tmp_path, len(ALL))
        assert len(survivors(token)) >= len(ALL)
    finally:
        ours.kill()
        await ours.wait()
    await wait_until(lambda: not survivors(token))  # nobody is left who could tell


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("pauses", range(8))
async def test_a_command_ends_when_its_starting_process_is_killed_at_any_moment(
    tmp_path: Path, token: str, pauses: int
) -> None:
    """Killed a moment after it has begun, each time another: before, while and after the keeper starts."""
    ours = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", f"print(flush=True)\n{OURS}", PATH, str(tmp_path), f"exec -a {token} sleep 600"),
        stdout=PIPE,
    )
    assert ours.stdout is not None
    await ours.stdout.readline()
    with suppress(TimeoutError):
        await asyncio.wait_for(ours.wait(), 0.2 + pauses * 0.04)
    ours.kill()
    await ours.communicate()
    # nobody is left who could tell
    await wait_until(lambda: not keepers_of(ours.pid) and not survivors(token))


def keepers_of(pid: int) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = each.read_bytes().split(b"\0")
            if any(b"supervisor" in word for word in words) and str(pid).encode() in words:
                found.append(each.parent.name)
    return found


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[int]:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    os.close(reader)


async def run_program(processes: Processes, folder: Path, program: str, then: str) -> ProcessResult:
    """With no mark of any kind, in the background; when it is ready the command goes on."""
    (folder / "program.py").write_text(BEGIN + program)
    words = (
        f"{sys.executable} {folder}/program.py token-{folder.name}-{os.getpid()} {folder}/pipe {folder}/up"
    )
    script = f"env -i {words} > /dev/null 2>&1 < /dev/null &\nuntil [ -e {folder}/up ]; do sleep 0.02; done"
    return await bash(processes, f"{script}\n{then}")


@pytest.mark.spec("A-05")
@pytest.mark.usefixtures("token")
@pytest.mark.parametrize("program", [HEADLESS, MANY, HOPPERS], ids=["headless", "many", "hoppers"])
async def test_no_hidden_or_quickly_forking_process_survives_its_command(
    tmp_path: Path, processes: Processes, pipe: int, program: str
) -> None:
    assert (await run_program(processes, tmp_path, program, "exit 5")).exit_code == 5
    assert os.read(pipe, 9) == b"ready"
    assert os.read(pipe, 9) == b""


@pytest.mark.spec("A-05")
@pytest.mark.usefixtures("token")
@pytest.mark.parametrize("program", [HEADLESS, MANY], ids=["headless", "many"])
async def test_no_hidden_process_survives_a_command_that_kills_its_supervisor(
    tmp_path: Path, processes: Processes, pipe: int, program: str
) -> None:
    await run_program(processes, tmp_path, program, "kill -9 $PPID; sleep 60")
    assert os.read(pipe, 9) == b"ready"
    assert os.read(pipe, 9) == b""


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("daemon", some_of(ALL.values(), 4), ids=ALL.keys())
async def test_no_daemon_survives_a_command_that_kills_its_supervisor(
    tmp_path: Path, processes: Processes, token: str, daemon: str
) -> None:
    script = daemon_command(daemon, up=tmp_path / "up", token=token, then="kill -9 $PPID; sleep 600")
    result = await bash(processes, script)
    assert survivors(token) == []
    assert result.exit_code == 128 + signal.SIGKILL
    assert result.timed_out is False


async def test_no_daemon_survives_a_command_that_stops_its_supervisor(
    tmp_path: Path, processes: Processes, token: str
) -> None:
    """A longer timeout follows where a busy machine did not let the command begin."""
    script = daemon_command(GHOST, up=tmp_path / "up", token=token, then="kill -STOP $PPID; echo done")
    result = await bash(processes, script, timeout=2)
    if not result.output:
        result = await bash(processes, script, timeout=30)
    assert survivors(token) == []
    assert result.output == "done\n"
    assert result.timed_out is True


@pytest.mark.parametrize("kind", ["TERM", "INT", "HUP", "USR1", "PIPE", "ALRM", "QUIT"])
async def test_a_signal_from_the_command_does_not_disturb_its_supervisor(
    processes: Processes, kind: str
) -> None:
    result = await bash(processes, f"kill -{kind} $PPID; sleep 0.1; echo here; exit 4")
    assert result.exit_code == 4
    assert result.output == "here\n"


@pytest.mark.parametrize(
    ("script", "exit"),
    [
        ("kill 0; sleep 60", 128 + signal.SIGTERM),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
        ("kill -INT $$", 128 + signal.SIGINT),
        ("set -o pipefail; yes | head -n 1 > /dev/null", 128 + signal.SIGPIPE),
        ("exit 255", 255),
        ("exit 127", 127),
    ],
)
async def test_exit_codes_and_signals_of_a_command_are_reported(
    processes: Processes, script: str, exit: int
) -> None:
    assert await bash(processes, script) == ProcessResult(
        exit_code=exit, timed_out=False, output="", truncated=False
    )


async def test_a_command_has_its_own_process_session_and_three_streams_alone(processes: Processes) -> None:
    result = await bash(
        processes, "cut -d ' ' -f 6 /proc/$$/stat; echo $$; ls /proc/$$/fd; readlink /proc/$$/fd/0"
    )
    session, pid, *streams, given = result.output.splitlines()
    assert session == pid
    assert set(streams) <= {"0", "1", "2", "255"}
    assert given == "/dev/null"


async def test_the_supervisor_reaps_orphans_that_die_while_the_command_runs(processes: Processes) -> None:
    script = """for each in $(seq 50); do ( : & ); done
    while grep -qsF ") Z $PPID " /proc/[0-9]*/stat; do sleep 0.02; done; echo none"""
    assert (await bash(processes, script)).output == "none\n"


async def test_fifty_concurrent_commands_each_have_their_own_exit_code(
    tmp_path: Path, processes: Processes, token: str
) -> None:
    script = (
        f"(env -i setsid bash -c 'sleep 60; :' {token} >/dev/null 2>&1 </dev/null &); echo {{0}}; exit {{0}}"
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bash(processes, script.format(each))) for each in range(50)]
    assert survivors(token) == []
    assert [(task.result().exit_code, task.result().output) for task in tasks] == [
        (each, f"{each}\n") for each in range(50)
    ]
    assert zombies() == []
