"""Processes: whatever a command does, nothing of it is left, and its output stays small."""

import asyncio
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncagents.errors import ToolError
from asyncagents.tools.output.capture import OutputCapture
from asyncagents.tools.process.processes import Processes, ProcessResult
from asyncagents.tools.process.reaper import Reaper

pytestmark = pytest.mark.slow

PATH = os.environ.get("PATH", os.defpath)
MARK = "A_TEST_OF_PROCESSES"

# Each starts something that wants to outlive it, says "ready", and waits.
ESCAPES = {
    "plain": "sleep 600 & echo ready; wait",
    "nohup": "nohup sleep 600 >/dev/null 2>&1 & echo ready; wait",
    "setsid": "setsid sleep 600 >/dev/null 2>&1 & echo ready; wait",
    "double fork": "( ( setsid nohup sleep 600 </dev/null >/dev/null 2>&1 & ) & ); echo ready; sleep 600",
    "ignores SIGTERM": "trap '' TERM; ( setsid sleep 600 >/dev/null 2>&1 & ); echo ready; sleep 600",
    "forgets its environment": f"env -i {MARK}=${MARK} setsid sleep 600 & echo ready; sleep 600",
    "holds the pipe": f"( env -i {MARK}=${MARK} setsid sleep 600 & ); echo ready; sleep 600",
    "spawns for ever": "( while :; do setsid sleep 600 & sleep 0.05; done ) &>/dev/null & echo ready; wait",
    "spawns when told to end": "trap 'setsid sleep 600 &' TERM; echo ready; while :; do sleep 0.05; done",
}


def alive(folder: Path) -> list[str]:
    """All processes that carry the mark of this test, found without the code that is tested."""
    return [found for process in Path("/proc").iterdir() if (found := _carrying(process, f"{MARK}={folder}"))]


def _carrying(process: Path, mark: str) -> str:
    try:
        marked = process.name.isdigit() and mark.encode() in (process / "environ").read_bytes().split(b"\0")
        return (process / "cmdline").read_text() if marked else ""
    except OSError:
        return ""


@pytest.fixture(params=["namespace", "supervisor", "session"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Processes]:
    if request.param == "namespace" and shutil.which("bwrap") is None:
        pytest.skip("there is no bwrap here")
    if request.param == "supervisor" and sys.platform != "linux":
        pytest.skip("there is no subreaper here")
    yield Processes(
        {"PATH": PATH, MARK: str(tmp_path)},
        folder=tmp_path / "output",
        namespace=request.param == "namespace",
        supervisor=request.param == "supervisor",
    )
    assert alive(tmp_path) == []


def size(file: str) -> int:
    """Of a file that is then removed: it may be large."""
    found = Path(file).stat()
    Path(file).unlink()
    assert found.st_mode & 0o777 == 0o600
    return found.st_size


async def bash(
    processes: Processes, command: str, *, timeout: float = 60, cap: int = 30_000
) -> ProcessResult:
    return await processes.run(("bash", "-c", command), cwd=Path("/"), timeout=timeout, cap=cap)


async def cancelled_when_ready(processes: Processes, command: str, *, times: int = 1) -> None:
    """Cancels it, perhaps again and again, once it has said that it is ready."""
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            processes.run(
                ("bash", "-c", command), cwd=Path("/"), timeout=60, on_output=lambda text: ready.set()
            )
        )
        await ready.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.wait({task}, timeout=0.01)
        await asyncio.wait({task})
        assert task.cancelled()


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
async def test_no_process_survives_a_cancel(processes: Processes, tmp_path: Path, command: str) -> None:
    await cancelled_when_ready(processes, command)
    assert alive(tmp_path) == []


@pytest.mark.spec("A-05")
async def test_no_process_survives_a_cancel_that_is_repeated(processes: Processes, tmp_path: Path) -> None:
    await cancelled_when_ready(processes, ESCAPES["ignores SIGTERM"], times=5)
    assert alive(tmp_path) == []


@pytest.mark.spec("A-05")
async def test_no_process_survives_a_timeout_and_the_output_until_then_is_kept(
    processes: Processes, tmp_path: Path
) -> None:
    """All commands at once; a longer timeout follows where a busy machine did not let one print."""
    ended: list[ProcessResult] = []
    for timeout in (0.5, 2, 8, 32):
        ended = await asyncio.gather(
            *(bash(processes, command, timeout=timeout) for command in ESCAPES.values())
        )
        assert alive(tmp_path) == []
        if all(each.output for each in ended):
            break
    assert [each.timed_out for each in ended] == [True] * len(ESCAPES)
    assert [each.output[:5] for each in ended] == ["ready"] * len(ESCAPES)


async def test_no_process_survives_the_end_of_its_command(processes: Processes, tmp_path: Path) -> None:
    result = await bash(processes, "setsid nohup sleep 600 & echo done")
    assert result == ProcessResult(exit_code=0, timed_out=False, output="done\n", truncated=False)
    assert alive(tmp_path) == []


async def test_a_cancel_while_a_command_starts_leaves_no_process(
    processes: Processes, tmp_path: Path
) -> None:
    for pauses in range(12):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(bash(processes, "setsid sleep 600 & sleep 600"))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
        assert alive(tmp_path) == []


async def test_an_error_of_the_listener_ends_the_command_and_is_raised(
    processes: Processes, tmp_path: Path
) -> None:
    def fail(text: str) -> None:
        raise KeyError(text)

    with pytest.raises(KeyError, match="ready"):
        await processes.run(
            ("bash", "-c", "echo ready; sleep 600"), cwd=Path("/"), timeout=60, on_output=fail
        )
    assert alive(tmp_path) == []


async def test_commands_side_by_side_do_not_end_each_other(processes: Processes, tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        command = f"until test -e {tmp_path}/go; do sleep 0.01; done; echo long"
        long = group.create_task(bash(processes, command))
        for _ in range(5):
            assert (await bash(processes, "sleep 600 & echo short")).output == "short\n"
        (tmp_path / "go").touch()
    assert long.result().output == "long\n"


async def test_exit_codes_are_those_of_a_shell(processes: Processes) -> None:
    assert (await bash(processes, "exit 3")).exit_code == 3
    assert (await bash(processes, "kill -KILL $$")).exit_code == 128 + signal.SIGKILL
    assert (await bash(processes, "no-such-program-at-all")).exit_code == 127


async def test_a_command_has_no_input_and_no_terminal(processes: Processes) -> None:
    result = await bash(
        processes, "cat; test -t 0 || test -t 1 || echo none; ( : < /dev/tty ) 2>/dev/null || echo no"
    )
    assert result.output == "none\nno\n"


async def test_a_command_knows_only_the_given_environment(processes: Processes) -> None:
    names = {line.partition("=")[0] for line in (await bash(processes, "env")).output.splitlines()}
    assert names <= {"PATH", MARK, "ASYNCAGENTS_PROCESS", "PWD", "SHLVL", "_"}


async def test_output_is_reported_while_the_command_runs(processes: Processes, tmp_path: Path) -> None:
    """The command waits for a file that is made only when its first words are heard."""
    heard: list[str] = []

    def listen(text: str) -> None:
        heard.append(text)
        (tmp_path / "go").touch()

    command = f"echo first; until test -e {tmp_path}/go; do sleep 0.01; done; echo second >&2"
    result = await processes.run(("bash", "-c", command), cwd=tmp_path, timeout=60, on_output=listen)
    assert "".join(heard) == result.output == "first\nsecond\n"


@pytest.mark.spec("A-07")
async def test_a_flood_stays_small_in_memory_and_whole_on_disk(processes: Processes) -> None:
    flood = 100 * 1024 * 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await bash(processes, f"echo begin; head -c {flood} /dev/zero | tr '\\0' x; echo; echo end")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20 * 1024
    assert result.truncated
    assert len(result.output) < 31_000
    assert result.output.startswith("begin\nxxx")
    assert result.output.endswith("xxx\nend\n")
    assert result.spill_path is not None
    assert f"the whole is in {result.spill_path}" in result.output
    assert size(result.spill_path) == flood + len("begin\n\nend\n")


async def test_endless_output_ends_at_the_timeout_and_is_cut(processes: Processes) -> None:
    result = await bash(processes, "yes", timeout=0.3)
    if not result.truncated:  # the machine was too busy for much of a flood
        result = await bash(processes, "yes", timeout=10)
    assert result.timed_out
    assert len(result.output) < 31_000
    assert result.spill_path is not None
    assert size(result.spill_path) > 30_000


async def test_short_output_makes_no_file(processes: Processes, tmp_path: Path) -> None:
    result = await bash(processes, "printf 12345678901234567890", cap=20)
    assert result.output == "12345678901234567890"
    assert result.truncated is False
    assert result.spill_path is None
    assert not (tmp_path / "output").exists()


async def test_output_bytes_that_are_no_text_are_replaced(processes: Processes) -> None:
    assert (await bash(processes, r"printf 'a\377b\0c\303'")).output == "a�b�c�"


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        (("bash", "-c", "x\0y"), "/", "NUL"),
        (("bash", "-c", "\ud800"), "/", "character"),
        (("bash", "-c", ": " + "x" * 3_000_000), "/", "too long"),
        (("bash", "-c", "true"), "/no/such/place", "There is no directory"),
        (("no-such-program-at-all",), "/", "could not be started"),
    ],
)
@pytest.mark.parametrize("supervisor", [True, False], ids=["supervisor", "session"])
async def test_a_command_that_cannot_start_is_a_tool_error(
    tmp_path: Path, command: tuple[str, ...], cwd: str, said: str, *, supervisor: bool
) -> None:
    processes = Processes({"PATH": PATH}, folder=tmp_path, namespace=False, supervisor=supervisor)
    with pytest.raises(ToolError, match=said):
        await processes.run(command, cwd=Path(cwd), timeout=5)


async def test_a_reaper_without_survivors_ends_at_once() -> None:
    reaper = Reaper("NOBODY=has this mark")
    assert reaper.survivors() == set()
    await reaper.end(None)


def test_long_output_shows_its_head_its_tail_and_the_size_of_the_gap(tmp_path: Path) -> None:
    output = OutputCapture(tmp_path, 10)
    for letter in b"abcdefghijklmnop":
        output.feed(bytes([letter]))
    output.close()
    assert output.text() == f"abcde\n\n[6 characters left out; the whole is in {output.path}]\n\nlmnop"
    assert Path(output.path or "").read_text() == "abcdefghijklmnop"


def test_the_size_of_saved_output_is_limited(tmp_path: Path) -> None:
    output = OutputCapture(tmp_path, 4, most_saved=6)
    for _ in range(10):
        output.feed(b"xyz")
    output.close()
    assert Path(output.path or "").read_bytes() == b"xyzxyz"
    assert "the first 6 bytes are in" in output.text()


def test_a_folder_that_cannot_be_written_does_not_stop_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = OutputCapture(tmp_path / "file" / "folder", 4)
    output.feed(b"0123456789")
    output.feed(b"0123456789")
    assert output.text() == "01\n\n[16 characters left out; the whole could not be saved]\n\n89"
