"""Hostile commands: ways out of the sandbox, traps for our own programs, secrets of the environment."""

import os
import socket
from pathlib import Path

import pytest

from asyncagents.config.child_environment import child_environment
from asyncagents.domain.agent.sandbox import Sandbox, narrowest
from asyncagents.errors import ToolError
from asyncagents.tools.process import processes as process
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.program import drop_project_libraries
from asyncagents.tools.process.sandbox import Sandboxes, SandboxPaths, delete_old_scratch
from asyncagents.tools.process.unix_sockets import list_sockets
from tests.support.environment import ConfigDesk
from tests.support.workspace.sandbox import (
    DAY_MS,
    SEARCH_PATH,
    SandboxGround,
    lay_out_ground,
    needs_bwrap,
    open_sandboxes,
    write_file,
)

pytestmark = pytest.mark.slow

OFFLINE = Sandbox(network=False)
# Each must fail or change nothing outside, and none may tell a secret.
WAYS_OUT = """
cat /proc/1/root{home}/.ssh/id_ed25519
grep SECRET /proc/*/root{home}/.netrc
cat /proc/*/cwd/../home/.aws/credentials
cat /proc/self/cwd/../home/.docker/config.json
cp -a {home}/.ssh copied && cat copied/*
ln {home}/.netrc hard && cat hard
tar cf - {home} | grep -a SECRET
find {home} -type f -exec grep -H SECRET {{}} +
mkdir -p m && unshare -Urm sh -c 'mount --rbind / m; cat m{home}/.netrc m{data}/token'
unshare -Urpmf --mount-proc sh -c 'cat /proc/1/root{home}/.netrc'
unshare -Urm sh -c 'umount -R {data}; cat {data}/token'
unshare -Urm sh -c 'umount -l {home}/.netrc; grep SECRET {home}/.netrc'
unshare -Urm sh -c 'mount -t tmpfs t {home}; umount -l {home}; echo x >> {home}/notes'
unshare -Urm sh -c 'mkdir -p m/old; mount --rbind / m; pivot_root m m/old; cat /old{home}/.netrc'
unshare -Urm sh -c 'mount -o remount,bind,rw {home}/.netrc; echo x > {home}/.netrc'
unshare -Urm sh -c 'mount --move {data} m; grep SECRET {data}/token'
nsenter -t 1 -m -n -p sh -c 'cat {home}/.netrc'
nsenter --net=/proc/1/ns/net sh -c 'cat {home}/.netrc'
exec 9<{home} && cd /proc/self/fd/9 && echo x >> notes
cd {home} && echo x >> ./notes
touch -d 1999-01-01 {home}/notes
chmod 777 {home}/notes
truncate -s 0 {home}/notes
dd if=/dev/zero of={home}/notes bs=1 count=1 conv=notrunc
sed -i s/plain/changed/ {home}/notes
ln -sf /dev/null {home}/notes
rm -f {home}/notes
mkfifo {home}/pipe
mkdir {home}/.ssh/added
touch {data}/added
touch /run/added
mkdir {home}/.config/asyncagents/plugins
echo x > {home}/.config/asyncagents/skills/s/run
mv ../project ../elsewhere
rmdir ../tmp
mount -t tmpfs t {home}
mount --bind / m
mknod memory c 1 1 && head -c1 memory
hostname "$(hostname)"
chroot {home} /bin/true
ip link add asyncagents0 type dummy
python3 -c "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"
python3 -c "import os; os.setgroups([0]); os.setuid(1); os.setuid(0); open('{home}/notes', 'a').write('x')"
git worktree add {home}/tree
git init --bare {home}/bare
git config include.path ../evil
git config core.hooksPath hooks
git config --global core.fsmonitor evil
mv .git/hooks hooks
mv .git/info info
chmod -R 000 .git/hooks
ln -sfn /nowhere .git/hooks
cp asyncagents.json a && mv -f a asyncagents.json
install -m 644 /dev/null asyncagents.json
""".strip().splitlines()


@needs_bwrap
async def test_no_escape_from_the_sandbox_changes_a_file_or_shows_a_secret(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    before = {path: path.read_text() for path in sorted(ground.home.rglob("*")) if path.is_file()}
    kept = (ground.root / ".git/config").read_text(), (ground.root / ".git/hooks").stat().st_mode
    bad = []
    for way in WAYS_OUT:
        result = await ground.bash(f"exec 2>&1; {way.format(home=ground.home, data=ground.data)}")
        if result.exit_code == 0 or "SECRET" in result.output:
            bad.append((way, result.output))
        now = {path: path.read_text() for path in before}
        same = (ground.root / ".git/config").read_text(), (ground.root / ".git/hooks").stat().st_mode
        assert now == before, way
        assert same == kept, way
        assert (ground.root / "asyncagents.json").read_text() == "{}", way
    assert bad == []
    names = {path.relative_to(ground.home).parts[0] for path in ground.home.iterdir()}
    assert names.isdisjoint({"pipe", "tree", "bare"})


@needs_bwrap
async def test_a_command_that_kills_all_it_can_kills_itself_alone(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    await ground.bash("kill -9 -1; kill -9 1")
    assert (await ground.bash("echo on")).output == "on\n"


@needs_bwrap
@pytest.mark.parametrize("network", [True, False])
async def test_unix_sockets_are_reachable_only_with_the_network(tmp_path: Path, network: bool) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1].replace('@', chr(0)))"
    named, abstract = ground.home / "door", f"@asyncagents-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(str(named))
        two.bind(abstract.replace("@", "\0"))
        one.listen()
        two.listen()
        for place in (str(named), abstract):
            result = await ground.bash(f'python3 -c "{connect}" {place}', Sandbox(network=network))
            assert (result.exit_code == 0) is network, (place, result.output)


def test_only_sockets_that_are_there_are_listed(tmp_path: Path) -> None:
    """Their names are of other users' choosing, and there may be anything in the table."""
    table, door = tmp_path / "unix", tmp_path / "a door"
    row = "0000000000000000: 00000002 00000000 00010000 0001 01 12345"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(door))
        names = (str(door), f"{door}\n{row} /etc", "/etc/passwd", "door", "@/abstract", "/gone", "", "/\x80")
        table.write_text("\n".join(f"{row} {name}" for name in names), errors="surrogateescape")
        assert list_sockets(table) == [str(door)]
    assert list_sockets(tmp_path / "no-table") == []


@needs_bwrap
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_link_left_by_one_agent_gives_another_no_access(tmp_path: Path, restarted: bool) -> None:
    """A task that writes a folder inside of what its launcher writes is not wider than the launcher."""
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    cache = ground.home / ".cache"
    wide, narrow = (Sandbox(write=(str(each),), network=False) for each in (cache, cache / "pip"))
    task = narrowest([wide, narrow])
    assert task is not None
    await ground.bash(f"ln -s {ground.home} {cache}/pip", wide)
    sandboxes = open_sandboxes(tmp_path, ground.root) if restarted else ground.sandboxes
    sandboxes.add_writable((*wide.write, *narrow.write))
    for each in (task, narrow):
        words = sandboxes.bwrap_arguments(each, "ses_1")
        command = ("bash", "-c", f"echo x >> {ground.home}/notes")
        assert (
            await ground.processes.run(command, cwd=ground.root, timeout=60, sandbox=words)
        ).exit_code != 0
    assert (ground.home / "notes").read_text() == "plain"


@needs_bwrap
async def test_a_writable_folder_of_another_agent_cannot_be_moved_or_replaced(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    cache = ground.home / ".cache"
    wide, narrow = (Sandbox(write=(str(each),), network=False) for each in (cache, cache / "a/pip"))
    ground.sandboxes.add_writable((*wide.write, *narrow.write))
    for swap in ("mv {0}/a/pip {0}/p", "rm -rf {0}/a/pip && ln -s / {0}/a/pip", "mv {0}/a {0}/b"):
        assert (await ground.bash(swap.format(cache), wide)).exit_code != 0
    assert (await ground.bash(f"echo 1 > {cache}/a/pip/x", narrow)).exit_code == 0
    assert (await ground.bash(f"cat {cache}/a/pip/x; echo 2 > {cache}/other", wide)).output == "1\n"


@needs_bwrap
async def test_a_temporary_folder_that_is_a_link_shows_the_one_of_the_session(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    write_file(tmp_path / "real/of-others", "SECRET")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    paths = SandboxPaths(
        root=ground.root,
        home=ground.home,
        scratch=ground.data / "scratch",
        own_paths=(ground.data,),
        temporary=(str(tmp_path / "link"), str(tmp_path / "real")),
    )
    words = Sandboxes(paths).bwrap_arguments(OFFLINE, "ses_1")
    command = f"ls {tmp_path}/link {tmp_path}/real; echo 1 > $TMPDIR/mine && cat {tmp_path}/link/mine"
    result = await ground.processes.run(("bash", "-c", command), cwd=ground.root, timeout=60, sandbox=words)
    assert "of-others" not in result.output
    assert result.output.endswith("1\n")
    assert not (tmp_path / "real/mine").exists()


@needs_bwrap
async def test_startup_files_of_a_home_used_as_project_cannot_be_written(tmp_path: Path) -> None:
    """Nor can a command make the folder of our configuration, which counts in full wherever one works."""
    home, ground = tmp_path / "other", lay_out_ground(tmp_path, tmp_path / "project")
    data, config = home / ".local/share/asyncagents", home / ".config/asyncagents"
    for each in (".bashrc", ".gitconfig", ".local/bin/tool", "notes"):
        write_file(home / each, "mine")
    data.mkdir(parents=True)
    paths = SandboxPaths(
        root=home,
        home=home,
        scratch=data / "scratch",
        own_paths=(data, config),
        own_folders=(config,),
        startup_files=tuple(home / each for each in (".bashrc", ".gitconfig", ".local/bin", ".zshrc")),
        temporary=(str(tmp_path / "tmp"),),
    )
    words = Sandboxes(paths).bwrap_arguments(OFFLINE, "ses_1")
    for way in (
        "echo x >> .bashrc", "mv .bashrc b", "git config --file .gitconfig core.fsmonitor x", "rm .gitconfig",
        "echo x > .local/bin/git", "mv .local l", "mkdir .config/asyncagents/plugins", "mv .config c",
        "rm -rf .config && ln -s /nowhere .config",
    ):  # fmt: skip
        result = await ground.processes.run(("bash", "-c", way), cwd=home, timeout=60, sandbox=words)
        assert result.exit_code != 0, way
    result = await ground.processes.run(("bash", "-c", "echo 1 > notes"), cwd=home, timeout=60, sandbox=words)
    assert result.exit_code == 0
    assert (home / "notes").read_text() == "1\n"
    assert (home / ".bashrc").read_text() == (home / ".local/bin/tool").read_text() == "mine"
    assert list(config.iterdir()) == []


def plant(path: Path, script: str) -> Path:
    write_file(path, f"#!/bin/sh\n{script}\n").chmod(0o755)
    return path


async def test_checking_the_sandbox_runs_no_program_of_the_project(tmp_path: Path) -> None:
    """As one that a confined command put into a virtual environment which is on PATH."""
    root, ran = tmp_path / "project", tmp_path / "ran"
    for name in ("true", "sh", "bash", "env", "bwrap", "python3", "id"):
        plant(root / ".venv/bin" / name, f"touch {ran}")
    path = f"{root}/.venv/bin:{SEARCH_PATH}"
    for supervisor in (True, False):
        processes = Processes({"PATH": path}, folder=tmp_path, root=root, supervisor=supervisor)
        await processes.containment()
        await processes.sandbox_failure(network=True)
        await processes.sandbox_failure(network=False)
    assert not ran.exists()


HOLDS = 'echo "[$LD_LIBRARY_PATH]"; while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


async def test_libraries_of_the_project_are_dropped_for_bwrap_and_own_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    root = tmp_path / "project"
    for folder in (root / "lib", tmp_path / "lib"):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(root / "lib")
    plant(tmp_path / "bin/bwrap", HOLDS)
    libraries = f"{root}/lib:{tmp_path}/lib::.:lib:{tmp_path}/link:{root}/gone"
    environment = {"PATH": f"{tmp_path}/bin:{SEARCH_PATH}", "LD_LIBRARY_PATH": libraries}
    processes = Processes(environment, folder=tmp_path, root=root)
    result = await processes.run(("true",), cwd=root, timeout=60, sandbox=("--unshare-net",))
    assert result.output == f"[{tmp_path}/lib]\n"
    own = await processes.for_own_programs().run(("env",), cwd=root, timeout=60)
    assert f"LD_LIBRARY_PATH={tmp_path}/lib\n" in own.output
    assert drop_project_libraries({"LD_LIBRARY_PATH": f"{root}/lib"}, outside=root) == {}


@needs_bwrap
async def test_a_confined_command_has_the_libraries_of_the_user(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    environment = {"PATH": SEARCH_PATH, "LD_LIBRARY_PATH": f"{ground.root}/lib"}
    processes = Processes(environment, folder=tmp_path, root=ground.root)
    words = ground.sandboxes.bwrap_arguments(OFFLINE, "ses_1")
    result = await processes.run(("env",), cwd=ground.root, timeout=60, sandbox=words)
    assert f"LD_LIBRARY_PATH={ground.root}/lib\n" in result.output


@pytest.mark.parametrize(
    "broken",
    ["exit 3", "kill -9 $$", "echo no >&2; exit 127", "exec /nowhere/bwrap", None],
    ids=["fails", "dies", "complains", "starts nothing", "is a folder"],
)
async def test_a_broken_bwrap_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str | None
) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    if broken is None:
        (tmp_path / "bin/bwrap").mkdir(parents=True)
    else:
        plant(tmp_path / "bin/bwrap", broken)
    processes = Processes({"PATH": f"{tmp_path}/bin"}, folder=tmp_path, root=tmp_path / "project")
    for network in ((), ("--unshare-net",)):
        with pytest.raises(ToolError, match="Nothing was run"):
            await processes.run(("/bin/touch", "ran"), cwd=tmp_path, timeout=60, sandbox=network)
    assert not (tmp_path / "ran").exists()


async def test_a_bwrap_that_is_gone_after_it_worked_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", ())
    program = plant(tmp_path / "bin/bwrap", "exit 0")
    processes = Processes({"PATH": f"{tmp_path}/bin"}, folder=tmp_path, root=tmp_path / "project")
    assert await processes.sandbox_failure(network=True) == ""
    program.unlink()
    with pytest.raises(ToolError, match="could not be started"):
        await processes.run(("/bin/touch", "ran"), cwd=tmp_path, timeout=60, sandbox=())
    assert not (tmp_path / "ran").exists()


def old_scratch(ground: SandboxGround) -> Path:
    ground.sandboxes.bwrap_arguments(OFFLINE, "ses_old")
    (old,) = (each for each in (ground.data / "scratch").iterdir() if each.is_dir())
    return old


def forget(ground: SandboxGround, old: Path) -> list[str]:
    os.utime(old)
    delete_old_scratch(ground.data / "scratch", int(old.stat().st_mtime * 1000) + 8 * DAY_MS)
    return [each.name for each in (ground.data / "scratch").iterdir()]


def test_a_very_deep_temporary_folder_is_deleted(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    old = old_scratch(ground)
    place = os.open(old, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=place)
        deeper = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.close(place)
    assert forget(ground, old) == ["empty"]


def test_deleting_a_temporary_folder_follows_no_link_out_of_it(tmp_path: Path) -> None:
    ground = lay_out_ground(tmp_path, tmp_path / "project")
    old = old_scratch(ground)
    write_file(old / "0/a/x", "1")
    write_file(old / "b/1/0/y", "1")
    write_file(old / "closed/in/z", "1")
    (old / "closed/out").symlink_to(ground.home)
    (old / "out").symlink_to(ground.home)
    os.mkfifo(old / "pipe")
    (old / "closed").chmod(0)
    assert forget(ground, old) == ["empty"]
    assert (ground.home / "notes").read_text() == "plain"


KEY = "sk-of-the-provider"
# Never in a command's environment, even where the user passes on all that looks innocent.
SECRETS = {
    "MY_KEY": KEY,
    "INNOCENT": f"x{KEY}y",
    "TERM": KEY,
    "LANG": f"C.{KEY}",
    "ASYNCAGENTS_TOKEN": "t",
    "ASYNCAGENTS_STORE": "postgres://h/d",
    "ASYNCAGENTS_CONFIG_CONTENT": "{}",
    "OPENCODE_CONFIG_CONTENT": "{}",
    "OPENCODE_SERVER_PASSWORD": "p",
    "AWS_BEARER_TOKEN_BEDROCK": "b",
    "some_password": "p",
    "somePassword": "p",
    "SomeApiKey": "k",
    "x-api-key": "k",
    "https_proxy": "http://me:pass@proxy",
    "Http_Proxy": "me:pass@proxy",
    "NO_PROXY": "x@y",
    "GOPROXY": "https://token@host/go",
    "GIT_SSL_CAINFO": "https://h/?key=1",
    "CFLAGS": "-DKEY=ghp_abcdefgh1234",
    "RUSTFLAGS": "Bearer abc",
}
INNOCENT = {"PATH": "/bin", "HTTP_PROXY": "http://proxy:3128", "MYAPP_MODE": "dev", "LC_ALL": "C"}


def test_no_secret_is_passed_on_even_where_all_variables_are(tmp_path: Path) -> None:
    desk = ConfigDesk(tmp_path)
    desk.variables.update({**SECRETS, **INNOCENT})
    provider = {"x": {"options": {"baseURL": "http://x", "apiKey": "{env:MY_KEY}"}}}
    desk.write("~/.config/asyncagents/asyncagents.json", {"provider": provider, "pass_environment": ["*"]})
    assert child_environment(desk.environment, desk.load().config) == INNOCENT


def test_an_untrusted_project_cannot_pass_on_variables(tmp_path: Path) -> None:
    desk = ConfigDesk(tmp_path, trusted=False)
    desk.variables.update({**SECRETS, **INNOCENT, "DATABASE_URL": "postgres://u:p@h"})
    desk.write("asyncagents.json", {"pass_environment": ["DATABASE_URL", "MYAPP_*", "*"]})
    passed = child_environment(desk.environment, desk.load().config)
    assert passed.keys().isdisjoint({"DATABASE_URL", "MYAPP_MODE", "MY_KEY", "SomeApiKey"})
