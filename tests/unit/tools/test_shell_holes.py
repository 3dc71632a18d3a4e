"""Lines that once ran unasked: each asks now, or is denied; everyday lines still need no person."""

from pathlib import Path

import pytest

from asyncagents.domain.agent.permission import decide
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.tools.shell.paths import ShellContext
from asyncagents.tools.shell.rules import command_asks, parse_command
from tests.support.hostile.everyday import AT_HOME, EVERYDAY
from tests.support.hostile.hole import DENIED, HOLES, Hole
from tests.support.hostile.yard import Yard, fill_paths, plant_holes

EVERYTHING = Rule(permission="*", pattern="*", action="allow")
NO_REMOVING = Rule(permission="bash", pattern="rm *", action="deny")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return plant_holes(tmp_path_factory.mktemp("holes"))


def judge(place: Yard, command: str, workdir: str = "") -> tuple[Ask, ...]:
    start = place.root / fill_paths(workdir, place).lstrip("/") if workdir else place.root
    assert start.is_dir()
    return command_asks(
        fill_paths(command, place), directory=place.root, start=start, home=Path("/home/someone")
    )


@pytest.mark.spec("A-03", "A-04")
@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: f"{hole.command} {hole.workdir}")
def test_a_line_that_once_ran_unasked_asks(hole: Hole, place: Yard) -> None:
    found = judge(place, hole.command, hole.workdir)
    assert any(ask.also or ask.permission == "external_directory" for ask in found)


@pytest.mark.spec("A-03", "A-04")
@pytest.mark.parametrize("command", DENIED)
def test_a_denied_program_is_denied_by_every_spelling_and_behind_every_wrapper(
    command: str, place: Yard
) -> None:
    found = judge(place, command)
    actions = {decide((EVERYTHING, NO_REMOVING), ask.permission, ask.patterns) for ask in found}
    assert "deny" in actions, [ask.patterns for ask in found]


@pytest.mark.parametrize("path", ["/proc/self/cwd", "/proc/thread-self/cwd", "//proc/./self/cwd", "here"])
def test_a_path_that_depends_on_the_process_counts_as_outside(
    path: str, place: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from this process the path lies in the project, seen from the shell it does not."""
    monkeypatch.chdir(place.root / "deep")
    found = judge(place, f"cat {path}/../outside/secret.txt")
    assert [ask.permission for ask in found] == ["external_directory", "bash"]


@pytest.mark.parametrize(
    "command", ["grep x -- *", "wc -- *", "ls ./*", "cat ./-*", "rm -- -exec", "sort -- *"]
)
def test_after_two_dashes_or_a_slash_no_name_is_an_option(command: str, place: Yard) -> None:
    """The folder has files with names of options."""
    assert [(ask.permission, ask.also) for ask in judge(place, command, "names")] == [("bash", ())]


def test_a_plain_line_in_a_project_behind_a_link_needs_no_extra_ask(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("")
    (tmp_path / "named").symlink_to("real")
    root = tmp_path / "named"
    found = command_asks(
        "mv a.txt b.txt && cat b.txt", directory=root, start=root, home=Path("/home/someone")
    )
    assert [(ask.permission, ask.also) for ask in found] == [("bash", ())]


def test_the_lists_of_lines_are_long_enough_and_without_duplicates() -> None:
    assert len(set(HOLES)) == len(HOLES) >= 2 * 47
    assert len(set(DENIED)) == len(DENIED)
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 60


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("everyday")
    for name in ("src/one.py", "src/two.py", "tests/x.py", "scripts/build.sh", "README.md", "a.txt", "b.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    virtual = root / ".venv" / "bin"
    virtual.mkdir(parents=True)
    (virtual.parent / "pyvenv.cfg").write_text("")
    (virtual / "python").symlink_to("/usr/bin/python3")
    return root


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("command", EVERYDAY)
def test_an_everyday_line_is_judged_by_the_rules_alone(command: str, project: Path) -> None:
    found = command_asks(command, directory=project, start=project, home=Path("/home/someone"))
    assert [(ask.permission, ask.also) for ask in found] == [("bash", ())], found[-1].metadata


@pytest.mark.parametrize("command", AT_HOME)
def test_a_plain_line_outside_the_project_asks_for_the_folder_alone(command: str, project: Path) -> None:
    found = command_asks(command, directory=project, start=project, home=Path("/home/someone"))
    assert [(ask.permission, ask.also) for ask in found] == [("external_directory", ()), ("bash", ())]


@pytest.mark.parametrize(
    ("home", "asked"), [("/home/some one", True), ("/home/*", True), ("", True), ("/home/someone", False)]
)
def test_an_unquoted_home_is_one_word_only_if_its_value_is(home: str, asked: bool, project: Path) -> None:
    values = ShellContext(str(project), str(project), home)
    assert parse_command("echo $HOME/x", values).asks_always == asked
    assert not parse_command('echo "$HOME/x"', values).asks_always


def test_the_program_of_a_virtual_environment_goes_by_its_path(project: Path) -> None:
    *_, ask = command_asks(
        ".venv/bin/python -m x", directory=project, start=project, home=Path("/home/someone")
    )
    assert ask.patterns == (".venv/bin/python -m x",)
