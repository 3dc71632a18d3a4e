"""Where configuration is looked for, who wins, and where data goes."""

import os
from pathlib import Path

import pytest

from asyncagents.config.env import Environment, system_environment
from asyncagents.config.paths import config_locations, data_folder
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk


def user(desk: ConfigDesk) -> str | None:
    """Which file won, told by the agent it names."""
    return desk.load().config.default_agent


def test_every_place_is_read_and_the_later_one_wins(desk: ConfigDesk) -> None:
    (desk.project.parent / ".git").mkdir()
    desk.variables = {"OPENCODE_CONFIG": "../a.json", "ASYNCAGENTS_CONFIG": "~/b.json"}
    order = [
        "~/.config/opencode/opencode.json",
        "~/.config/opencode/opencode.jsonc",
        "../opencode.json",
        "../opencode.jsonc",
        "../.opencode/opencode.json",
        "../.opencode/opencode.jsonc",
        "opencode.json",
        "opencode.jsonc",
        ".opencode/opencode.json",
        ".opencode/opencode.jsonc",
        "../a.json",
        "~/.config/asyncagents/asyncagents.json",
        "~/.config/asyncagents/asyncagents.jsonc",
        "../asyncagents.json",
        "../asyncagents.jsonc",
        "../.asyncagents/asyncagents.json",
        "../.asyncagents/asyncagents.jsonc",
        "asyncagents.json",
        "asyncagents.jsonc",
        ".asyncagents/asyncagents.json",
        ".asyncagents/asyncagents.jsonc",
        "~/b.json",
    ]
    desk.write("../a.json", "{}")
    desk.write("~/b.json", "{}")
    won = []
    for path in order:
        desk.write(path, {"default_agent": path})
        won.append(user(desk))
    assert won == order
    assert [str(location.path) for location in desk.load().files] == [
        str(desk.environment.folder(path)) for path in order
    ]


def test_texts_in_variables_win_over_the_files_of_their_family(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"default_agent": "file", "model": "a/b"})
    desk.variables = {"OPENCODE_CONFIG_CONTENT": '{"default_agent": "inline", /* and */}'}
    assert user(desk) == "inline"
    assert desk.load().origins["default_agent"] == "$OPENCODE_CONFIG_CONTENT"
    desk.write("asyncagents.json", {"default_agent": "ours"})
    assert user(desk) == "ours"
    desk.variables["ASYNCAGENTS_CONFIG_CONTENT"] = '{"default_agent": "last"}'
    assert user(desk) == "last"


def test_without_a_worktree_only_the_directory_itself_is_looked_at(desk: ConfigDesk) -> None:
    desk.write("../opencode.json", {"default_agent": "above"})
    assert user(desk) is None


def test_nothing_above_the_worktree_is_looked_at(desk: ConfigDesk) -> None:
    desk.write("../opencode.json", {"default_agent": "above"})
    # A linked worktree has a file there, not a folder.
    desk.write(".git", "gitdir: elsewhere\n")
    assert user(desk) is None


def test_another_users_git_folder_makes_no_worktree(
    desk: ConfigDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.project.parent / ".git").mkdir()
    desk.write("../opencode.json", {"default_agent": "above"})
    assert user(desk) == "above"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert user(desk) is None


def test_the_config_folder_follows_xdg_unless_it_is_relative(desk: ConfigDesk) -> None:
    desk.variables = {"XDG_CONFIG_HOME": str(desk.home / "etc")}
    desk.write("~/etc/opencode/opencode.json", {"default_agent": "xdg"})
    assert user(desk) == "xdg"
    desk.variables = {"XDG_CONFIG_HOME": "etc"}
    assert user(desk) is None


def test_each_config_location_shows_whether_it_was_found(desk: ConfigDesk) -> None:
    file = desk.write("opencode.jsonc", "{ broken")
    found = [location for location in config_locations(desk.environment, desk.project) if location.found]
    assert [location.label for location in found] == [str(file)]
    assert found[0].scope == "project"


@pytest.mark.parametrize("name", ["OPENCODE_CONFIG", "ASYNCAGENTS_CONFIG"])
def test_a_named_file_that_is_missing_is_an_error(desk: ConfigDesk, name: str) -> None:
    desk.variables = {name: "gone.json"}
    with pytest.raises(ConfigError, match=rf"^{name} names .*gone\.json, which does not exist: "):
        desk.load()


def test_a_file_that_cannot_be_read_is_an_error(desk: ConfigDesk) -> None:
    (desk.project / "opencode.json").mkdir()
    with pytest.raises(ConfigError, match=r"opencode\.json cannot be read \(Is a directory\): "):
        desk.load()


def test_a_file_that_is_no_text_is_an_error(desk: ConfigDesk) -> None:
    (desk.project / "opencode.json").write_bytes(b'{"model": "\xff/x"}')
    with pytest.raises(ConfigError, match=r"opencode\.json is not UTF-8 text: "):
        desk.load()


def test_a_byte_order_mark_is_ignored(desk: ConfigDesk) -> None:
    (desk.project / "opencode.json").write_bytes(b'\xef\xbb\xbf{"default_agent": "plan"}')
    assert user(desk) == "plan"


@pytest.mark.parametrize(
    ("platform", "variables", "folder", "origin"),
    [
        ("linux", {}, "~/.local/share/asyncagents", "default"),
        ("darwin", {}, "~/Library/Application Support/asyncagents", "default"),
        ("linux", {"XDG_DATA_HOME": "/xdg"}, "/xdg/asyncagents", "$XDG_DATA_HOME"),
        ("linux", {"XDG_DATA_HOME": "not/absolute"}, "~/.local/share/asyncagents", "default"),
        ("linux", {"XDG_DATA_HOME": "/xdg", "ASYNCAGENTS_DATA_DIR": "~/d"}, "~/d", "$ASYNCAGENTS_DATA_DIR"),
        ("darwin", {"ASYNCAGENTS_DATA_DIR": "d"}, "d", "$ASYNCAGENTS_DATA_DIR"),
        ("linux", {"ASYNCAGENTS_DATA_DIR": ""}, "~/.local/share/asyncagents", "default"),
    ],
)
def test_the_data_folder_comes_from_a_variable_or_the_platform(
    tmp_path: Path, *, platform: str, variables: dict[str, str], folder: str, origin: str
) -> None:
    desk = ConfigDesk(tmp_path, platform=platform)
    desk.variables = variables
    loaded = desk.load()
    assert loaded.config.data_dir == desk.environment.folder(folder)
    assert loaded.origins["data_dir"] == origin


def test_the_option_for_the_data_folder_wins(desk: ConfigDesk) -> None:
    desk.variables = {"ASYNCAGENTS_DATA_DIR": "/elsewhere"}
    assert data_folder(desk.environment, Path("here")) == (desk.project / "here", "--data-dir")


def test_the_real_environment_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ASYNCAGENTS_TEST_KEY", "sk-very-secret")
    monkeypatch.chdir(tmp_path)
    environment = system_environment()
    assert environment.get("ASYNCAGENTS_TEST_KEY") == "sk-very-secret"
    assert environment.home == tmp_path
    assert environment.cwd == tmp_path
    assert "sk-very-secret" not in repr(environment)


def test_a_current_directory_that_is_gone_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the current directory is gone"):
        system_environment()


def test_a_path_starts_at_home_or_at_the_current_directory() -> None:
    environment = Environment(variables={}, home=Path("/h"), platform="linux", cwd=Path("/c"))
    assert environment.folder("~") == Path("/h")
    assert environment.folder("~/x") == Path("/h/x")
    assert environment.folder("../x") == Path("/x")
    assert environment.folder("/x/./y") == Path("/x/y")
    assert environment.folder("~other") == Path("/c/~other")
