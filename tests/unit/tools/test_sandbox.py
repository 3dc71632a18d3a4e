"""Commands in a sandbox, with the real bwrap: what they see and write, and how they try to get out."""

import os
import socket
from pathlib import Path

import pytest

from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.errors import ToolError
from asyncagents.tools.process import processes as process
from asyncagents.tools.process.processes import Processes, find_bwrap
from asyncagents.tools.process.sandbox import delete_old_scratch
from tests.support.workspace.sandbox import (
    DAY_MS,
    SECRETS,
    SandboxGround,
    lay_out_ground,
    needs_bwrap,
    open_sandboxes,
    write_file,
)


@pytest.fixture
def ground(tmp_path: Path) -> SandboxGround:
    return lay_out_ground(tmp_path, tmp_path / "project")


@needs_bwrap
async def test_a_command_writes_the_project_its_temporary_and_its_named_folders(
    ground: SandboxGround,
) -> None:
    cache = ground.home / ".cache/pip"
    result = await ground.bash(
        f"echo 1 > new && rm src/a.py && echo 2 > $TMPDIR/t && echo 3 > {cache}/c && cat {ground.home}/notes",
        Sandbox(write=(str(cache),)),
    )
    assert result.exit_code == 0
    assert result.output == "plain"
    assert (ground.root / "new").read_text() == "1\n"
    assert not (ground.root / "src/a.py").exists()
    assert (cache / "c").read_text() == "3\n"


@needs_bwrap
async def test_the_temporary_folder_is_that_of_the_session(ground: SandboxGround) -> None:
    write_file(ground.home.parent / "tmp" / "of-others", "x")
    await ground.bash("echo mine > $TMPDIR/t")
    assert (await ground.bash("ls $TMPDIR; cat $TMPDIR/t")).output == "t\nmine\n"
    assert (await ground.bash("ls $TMPDIR", session="ses_2")).output == ""
    assert [each.name for each in (ground.home.parent / "tmp").iterdir()] == ["of-others"]


@needs_bwrap
@pytest.mark.parametrize(
    "command",
    [
        "echo x >> {home}/notes",
        "echo x > {home}/.bashrc",
        "mkdir {home}/.local/bin",
        "mv {home}/notes {home}/n",
        "ln {home}/notes hard && echo x >> hard",
        "ln -s {home} link && echo x >> link/notes",
        "echo x > /usr/bin/asyncagents-test",
        "echo x > /etc/asyncagents-test",
        "echo x > {home}/../beside",
        "mount -o remount,rw / && echo x >> {home}/notes",
        "mount -o remount,rw,bind {home} && echo x >> {home}/notes",
        "umount {home}/.ssh && cat {home}/.ssh/id_ed25519",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x >> {home}/notes'",
        "unshare -Urm sh -c 'umount -l {home}/.ssh && cat {home}/.ssh/id_ed25519'",
        "nsenter -t 1 -m sh -c 'echo x >> {home}/notes'",
        "chroot /proc/1/root sh -c 'echo x >> {home}/notes'",
        "echo x >> /proc/1/root{home}/notes",
        "echo x >> /proc/self/root{home}/notes",
        "mknod dev b 8 0 && head -c1 dev",
        "same=$(cat /proc/sys/kernel/core_pattern); echo $same > /proc/sys/kernel/core_pattern",
        "same=$(cat /proc/sys/vm/swappiness); echo $same > /proc/1/root/proc/sys/vm/swappiness",
        "echo h > /proc/sysrq-trigger",
        "same=$(cat /sys/kernel/profiling); echo $same > /sys/kernel/profiling",
        "echo x > .git/hooks/pre-commit",
        "git config core.fsmonitor 'touch x'",
        "mv .git g && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "rm -rf .git && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "echo x > asyncagents.json",
        "rm asyncagents.json",
        "mv asyncagents.json a && echo x > asyncagents.json",
        "ln -sf a asyncagents.json",
    ],
)
async def test_paths_outside_the_writable_folders_cannot_be_written(
    ground: SandboxGround, command: str
) -> None:
    before = write_file(ground.root / ".git/hooks/kept", "x"), (ground.root / ".git/config").read_text()
    result = await ground.bash(command.format(home=ground.home))
    assert result.exit_code != 0, result.output
    assert (ground.home / "notes").read_text() == "plain"
    assert (ground.root / "asyncagents.json").read_text() == "{}"
    assert before[0].exists()
    assert not (ground.root / ".git/hooks/pre-commit").exists()
    assert (ground.root / ".git/config").read_text() == before[1]
    assert not (ground.home / ".bashrc").exists()
    assert "SECRET" not in result.output


@needs_bwrap
@pytest.mark.parametrize("at_home", [False, True])
async def test_a_command_cannot_read_secrets(tmp_path: Path, at_home: bool) -> None:
    """Also where the project is the whole home, and where all of it is named."""
    ground = lay_out_ground(tmp_path, tmp_path / ("home" if at_home else "project"))
    sandbox = Sandbox(write=(str(ground.home),), network=False)
    places = " ".join(str(ground.home / each) for each in SECRETS)
    command = f"cat {places}; grep -rs SECRET {ground.home} /proc/1/root/{ground.home}; true"
    for each in (Sandbox(network=False), sandbox):
        assert "SECRET" not in (await ground.bash(command, each)).output
    moved = await ground.bash(
        f"cd {ground.home}; mv .local l; mv .config c; mv .ssh s; mv keys k; grep -rs SECRET . ; true",
        sandbox,
    )
    again = await ground.bash(command, sandbox)
    assert "SECRET" not in moved.output + again.output
    assert [(ground.home / each).read_text() for each in SECRETS] == ["SECRET"] * len(SECRETS)


@needs_bwrap
async def test_skills_are_read_though_they_lie_in_our_folder(ground: SandboxGround) -> None:
    result = await ground.bash(
        f"cat {ground.home}/.config/asyncagents/skills/s/run; ls {ground.home}/.config/asyncagents"
    )
    assert result.output == "skillskills\n"


@needs_bwrap
async def test_a_git_commit_works_in_the_sandbox(ground: SandboxGround) -> None:
    result = await ground.bash(
        "git add -A && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline | wc -l"
    )
    assert result.exit_code == 0
    assert result.output == "1\n"


@needs_bwrap
async def test_other_processes_are_neither_seen_nor_reached(ground: SandboxGround) -> None:
    result = await ground.bash(
        f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()} || echo gone; cat /proc/*/environ"
    )
    count, gone = result.output.split()[0], "gone" in result.output
    assert (int(count) < 10) is True
    assert gone is True


@needs_bwrap
@pytest.mark.parametrize("network", [True, False])
async def test_the_network_is_there_only_if_it_is_allowed(ground: SandboxGround, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = await ground.bash(
            f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached", Sandbox(network=network)
        )
    assert ("reached" in result.output) is network


@needs_bwrap
async def test_a_link_made_by_a_command_gives_no_access(ground: SandboxGround) -> None:
    """What is named lies in a place that commands write: it could lead anywhere."""
    cache = ground.home / ".cache"
    wide = Sandbox(write=(str(cache), str(cache / "pip"), str(ground.root / "out")), network=False)
    await ground.bash(f"ln -s {ground.home} {cache}/pip; ln -s {ground.home} out", wide)
    result = await ground.bash(f"echo x >> {ground.home}/notes", wide)
    assert result.exit_code != 0
    assert (ground.home / "notes").read_text() == "plain"


@needs_bwrap
async def test_a_guarded_place_that_became_a_link_gives_no_access(
    ground: SandboxGround, tmp_path: Path
) -> None:
    """As another agent, or a person, may have left it."""
    (ground.root / "asyncagents.json").unlink()
    (ground.root / "asyncagents.json").symlink_to(ground.home / ".ssh")
    (ground.root / ".git").rename(ground.root / "g")
    (ground.root / ".git").symlink_to(ground.home)
    for sandboxes in (ground.sandboxes, open_sandboxes(tmp_path, ground.root)):
        words = sandboxes.bwrap_arguments(Sandbox(network=False), "ses_1")
        command = "cat asyncagents.json/*; echo x >> .git/notes; cat .git/.ssh/*"
        result = await ground.processes.run(
            ("bash", "-c", command), cwd=ground.root, timeout=60, sandbox=words
        )
        assert "SECRET" not in result.output
    assert (ground.home / "notes").read_text() == "plain"


@needs_bwrap
async def test_a_command_does_not_run_in_a_hidden_folder(ground: SandboxGround) -> None:
    words = ground.sandboxes.bwrap_arguments(Sandbox(network=False), "ses_1")
    (ground.data / "inner").mkdir()
    result = await ground.processes.run(("pwd",), cwd=ground.data / "inner", timeout=60, sandbox=words)
    assert result.exit_code != 0
    assert str(ground.data / "inner") + "\n" != result.output


async def test_where_bwrap_is_missing_nothing_is_run(
    ground: SandboxGround, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    processes = Processes({"PATH": str(tmp_path)}, folder=tmp_path, root=ground.root)
    words = ground.sandboxes.bwrap_arguments(Sandbox(network=True), "ses_1")
    with pytest.raises(ToolError, match=r"sandbox alone, and bwrap is not installed\. Nothing was run"):
        await processes.run(("/bin/touch", "ran"), cwd=ground.root, timeout=60, sandbox=words)
    assert not (ground.root / "ran").exists()


async def test_where_bwrap_does_not_work_nothing_is_run(
    ground: SandboxGround, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    broken = write_file(
        tmp_path / "bin/bwrap",
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n",
    )
    broken.chmod(0o755)
    processes = Processes({"PATH": str(broken.parent)}, folder=tmp_path, root=ground.root)
    words = ground.sandboxes.bwrap_arguments(Sandbox(network=True), "ses_1")
    with pytest.raises(ToolError, match=r"does not work here .*No permissions to create a new namespace"):
        await processes.run(("/bin/touch", "ran"), cwd=ground.root, timeout=60, sandbox=words)
    assert not (ground.root / "ran").exists()


async def test_no_program_of_the_project_is_taken_for_bwrap(
    ground: SandboxGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one outside that is a link into the project."""
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    planted = write_file(ground.root / ".venv/bin/bwrap", "#!/bin/sh\n")
    planted.chmod(0o755)
    link = ground.home / "bin"
    link.mkdir()
    (link / "bwrap").symlink_to(planted)
    path = os.pathsep.join(["bin", ".", "", str(planted.parent), str(link)])
    assert find_bwrap(path, outside=ground.root) is None
    assert find_bwrap(path, outside=None) == str(planted)


def test_temporary_folders_are_forgotten_after_a_week(ground: SandboxGround) -> None:
    ground.sandboxes.bwrap_arguments(Sandbox(network=True), "ses_old")
    scratch = ground.data / "scratch"
    (old,) = (each for each in scratch.iterdir() if each.is_dir())
    write_file(old / "x/y", "z")
    now = int(old.stat().st_mtime * 1000)
    delete_old_scratch(scratch, now + 6 * DAY_MS)
    assert old.exists()
    delete_old_scratch(scratch, now + 8 * DAY_MS)
    assert [each.name for each in scratch.iterdir()] == ["empty"]
