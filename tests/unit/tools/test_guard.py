"""Guards of places as they lie on a disk."""

import os
import subprocess
from pathlib import Path

import pytest

from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import Environment
from asyncagents.config.guarded_places import guarded_places
from asyncagents.domain.agent.guarded import GuardedPlaces, KnownPlace
from asyncagents.tools.guard.configured_code import find_code_places
from asyncagents.tools.guard.git_config import paths_named_by_git
from asyncagents.tools.guard.place_guard import UNGUARDED, PlaceGuard


def environment(home: Path, **variables: str) -> Environment:
    return Environment(variables=variables, home=home, platform="linux", cwd=home)


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def level(guard: PlaceGuard, path: Path | str) -> str | None:
    found = guard.guard_at(str(path))
    return found.level if found else None


@pytest.mark.spec("A-05")
def test_a_file_behind_a_link_of_the_home_is_guarded_where_it_lies(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    put(dotfiles / "bashrc")
    (dotfiles / "config").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").symlink_to(dotfiles / "bashrc")
    (tmp_path / "home" / ".config").symlink_to(dotfiles / "config")
    places = guarded_places(environment(tmp_path / "home"), root=dotfiles, output=tmp_path / "data" / "out")
    guard = PlaceGuard(places)
    assert level(guard, dotfiles / "bashrc") == "guarded"
    assert level(guard, dotfiles / "config" / "asyncagents" / "tools" / "x.py") == "guarded"
    assert level(guard, dotfiles / "config" / "asyncagents" / "asyncagents.json") == "secret"
    assert level(guard, dotfiles / "readme.md") is None


@pytest.mark.spec("A-05")
def test_a_guarded_file_is_recognised_by_its_inode_under_another_name(tmp_path: Path) -> None:
    """As a disk that knows no case, or has a folder twice, shows it: here, by a second name of a file."""
    put(tmp_path / "home" / ".bashrc")
    os.link(tmp_path / "home" / ".bashrc", tmp_path / "other-name")
    guard = PlaceGuard(GuardedPlaces(known=(KnownPlace(path=str(tmp_path / "home" / ".bashrc"), why="x"),)))
    assert level(guard, tmp_path / "other-name") == "guarded"


@pytest.mark.spec("A-05")
def test_a_project_in_the_data_folder_can_be_worked_on_and_our_files_beside_it_cannot(tmp_path: Path) -> None:
    root = tmp_path / "data"
    places = guarded_places(environment(tmp_path / "home"), root=root, output=root / "tool-output")
    guard = PlaceGuard(places)
    assert level(guard, root / "src" / "a.py") is None
    for name in ("token", "server.json", "asyncagents.db", "asyncagents.db-wal", "tool-output", "snapshot/x"):
        assert level(guard, root / name) == "sealed"


@pytest.mark.spec("A-05")
def test_a_data_folder_that_is_given_by_a_relative_path_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = guarded_places(environment(tmp_path / "home"), root=tmp_path, output=Path("state/tool-output"))
    guard = PlaceGuard(places)
    assert level(guard, tmp_path / "state" / "token") == "sealed"
    assert level(guard, tmp_path / "state" / "tool-output" / "output-1.txt") == "guarded"


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("variable", ["BASH_ENV", "GIT_CONFIG_GLOBAL", "PYTHONSTARTUP"])
def test_a_file_that_a_variable_names_is_guarded(tmp_path: Path, variable: str) -> None:
    named = {variable: str(tmp_path / "start")}
    places = guarded_places(environment(tmp_path, **named), root=tmp_path / "p", output=tmp_path / "d" / "o")
    assert level(PlaceGuard(places), tmp_path / "start") == "guarded"


@pytest.mark.spec("A-05")
def test_folders_of_programs_and_of_the_system_are_guarded_where_the_project_holds_them(
    tmp_path: Path,
) -> None:
    def guard_at(root: Path) -> PlaceGuard:
        env = environment(tmp_path / "home", PATH=f"{tmp_path}/p/tools:relative:/usr/bin")
        return PlaceGuard(guarded_places(env, root=root, output=tmp_path / "data" / "out"))

    assert level(guard_at(tmp_path / "p"), tmp_path / "p" / "tools" / "git") == "guarded"
    assert level(guard_at(tmp_path / "p" / "tools"), tmp_path / "p" / "tools" / "git") is None
    assert level(guard_at(Path("/")), "/etc/cron.d/x") == "guarded"
    assert level(guard_at(Path("/")), "/usr/bin/git") == "guarded"
    assert level(guard_at(Path("/usr/src/app")), "/usr/src/app/main.py") is None


@pytest.mark.spec("A-05")
def test_every_repository_is_guarded_as_a_whole(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "x")], check=True)
    assert level(UNGUARDED, tmp_path / "x" / "config") == "guarded"
    assert level(UNGUARDED, tmp_path / "x" / "anything" / "else") == "guarded"
    assert level(UNGUARDED, tmp_path / "y" / "config") is None
    put(tmp_path / "y" / "HEAD")
    assert level(UNGUARDED, tmp_path / "y" / "config") == "guarded"
    assert level(UNGUARDED, tmp_path / "y" / "readme") is None
    both = [str(tmp_path / "z" / "HEAD"), str(tmp_path / "z" / "config")]
    assert UNGUARDED.guard_at(both[0]) is None
    assert UNGUARDED.guard_at(both[0], both) is not None


@pytest.mark.spec("A-05")
def test_programs_and_files_named_by_the_git_configuration_are_found(tmp_path: Path) -> None:
    root, home = tmp_path / "p", tmp_path / "home"
    put(root / ".git" / "HEAD")
    put(
        root / ".git" / "config",
        "[core]\n\thooksPath = .husky ; mine\n[include]\n\tpath = ../team.gitconfig\n"
        '[remote "origin"]\n\turl = ../upstream/x\n[diff "d"]\n\ttextconv = sh scripts/conv.sh\n'
        '[branch "main"]\n\tmerge = refs/heads/main\n[alias]\n\tci = "!./bin/ci --fast"\n',
    )
    put(root / "team.gitconfig", "[core]\n\tfsmonitor = ./watch/me\n")
    put(home / ".gitconfig", "[core]\n\thooksPath = ~/dot/hooks\n")
    found = {os.path.relpath(path, tmp_path) for path in paths_named_by_git(str(root), str(home))}
    assert found == {
        "p/.husky",
        "p/team.gitconfig",
        "p/scripts/conv.sh",
        "p/bin/ci",
        "p/watch/me",
        "home/dot/hooks",
    }


@pytest.mark.spec("A-05")
def test_files_of_plugins_and_mcp_servers_of_the_project_are_guarded(
    tmp_path: Path,
) -> None:
    root = tmp_path / "p"
    put(root / "server.py")
    put(root / "data" / "page.md")
    config = Config(
        data_dir=tmp_path,
        plugin=("acme.hooks:plugin", "not a name at all", f"file://{root}/hook.js"),
        mcp={
            "x": McpConfig(type="local", command=("python3", "server.py", "./data")),
            "y": McpConfig(type="remote"),
        },
    )
    guard = PlaceGuard(GuardedPlaces(known=find_code_places(config, root, tmp_path / "home")))
    for name in ("server.py", "hook.js", "other.js", "acme/hooks.py", "src/acme/hooks.py", "acme.py"):
        assert level(guard, root / name) == "guarded", name
    for name in ("readme.md", "src/main.py", "other/server.py", "json.py", "data/page.md"):
        assert level(guard, root / name) is None, name
