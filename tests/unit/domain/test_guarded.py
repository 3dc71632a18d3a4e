"""Which places are guarded, by names and by what is known of the machine: a table, no disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.agent.guarded import (
    GuardedPlaces,
    KnownPlace,
    guard_of,
    guard_of_name,
    is_guarded_name,
    is_repository,
    makes_repository,
    split_path,
)

GUARDED = [
    ".git",
    ".git/config",
    "sub/.git",
    "a/b/c/.git",
    "sub/.git/hooks/pre-commit",
    ".GIT",
    ".Git/config",
    "sub/.gIt",
    ".git /config",
    ".git.",
    ".git. . /config",
    ".git::$INDEX_ALLOCATION/config",
    ".git:config",
    "git~1",
    "GIT~1/config",
    "sub/git~2/hooks/x",
    ".g\u200cit/config",
    "\u200e.git/config",
    ".gi\ufefft",
    ".gi\u202et/config",
    ".gi\u206ft",
    ".ɡit/config".replace("ɡ", "g\u0301"),
    "．ｇｉｔ/config",
    "sub\\.git\\config",
    ".asyncagents/tools/x.py",
    ".Asyncagents/plugins/x.py",
    "asynca~1/tools/x.py",
    ".agents/agents/x.md",
    "sub/.opencode/agent/x.md",
    ".OPENCODE/opencode.json",
    ".claude/agents/x.md",
    ".claude/settings.json",
    ".claude/worktrees",
    ".claude/worktrees/one",
    ".claude/worktrees/one/.git",
    ".claude/worktrees/one/.claude/agents/x.md",
    "asyncagents.json",
    "deep/er/asyncagents.jsonc",
    "OpenCode.json",
    "opencode.jsonc ",
    "opencode.json.",
]
PLAIN = [
    "a.py",
    "git",
    "git/config",
    ".gitignore",
    ".gitattributes",
    ".gitmodules",
    ".github/workflows/ci.yml",
    ".git-blame-ignore-revs",
    "x.git/readme",
    "sub/.gitkeep",
    "agents/x.md",
    "claude/x",
    "AGENTS.md",
    "CLAUDE.md",
    "my-asyncagents.json",
    "asyncagents.json/../x".replace("/../", "-"),
    "git~x/config",
    "digit~1/config",
    ".claude/worktrees/one/src/a.py",
    "HEAD",
    "config",
]


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("name", GUARDED)
def test_names_that_programs_obey_are_guarded_at_any_depth_and_spelling(name: str) -> None:
    assert is_guarded_name(name)
    assert is_guarded_name(f"/home/me/project/{name}")
    guard = guard_of_name(split_path(name))
    assert guard is not None
    assert guard.level == "guarded"


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_only_resembles_a_guarded_one_is_not_guarded(name: str) -> None:
    assert not is_guarded_name(name)


PLACES = GuardedPlaces(
    known=(
        KnownPlace(path="/home/me/.bashrc", why="shell"),
        KnownPlace(path="/home/me/.ssh", level="secret", why="keys"),
        KnownPlace(path="/home/me/.config/git", why="git"),
        KnownPlace(path="/home/me/.config/git/credentials", level="secret", why="keys"),
        KnownPlace(path="/data", level="sealed", why="data"),
        KnownPlace(path="/home/me/project", why="code", ending=".py"),
    ),
    output="/data/tool-output",
)


@pytest.mark.spec("A-05")
@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/home/me/.bashrc", "guarded"),
        ("/home/me/.BASHRC", "guarded"),
        ("/home/me/.bashrc/x", "guarded"),
        ("/home/me/.bashrc2", None),
        ("/home/you/.bashrc", None),
        ("/home/me/.ssh", "secret"),
        ("/home/me/.ssh/id_ed25519", "secret"),
        ("/home/me/.ssh2/x", None),
        ("/home/me/.config/git/config", "guarded"),
        ("/home/me/.config/git/credentials", "secret"),
        ("/home/me/.config/other", None),
        ("/data", "sealed"),
        ("/data/token", "sealed"),
        ("/DATA/Token", "sealed"),
        ("/data/tool-output", "sealed"),
        ("/data/tool-output/output-1.txt", "guarded"),
        ("/data/tool-output/output-1.txt/x", "sealed"),
        ("/data/tool-output/script-1.sh", "sealed"),
        ("/data/tool-output/x/output-1.txt", "sealed"),
        ("/data2/token", None),
        ("/home/me/project/server.py", "guarded"),
        ("/home/me/project/json.py", "guarded"),
        ("/home/me/project/readme.md", None),
        ("/home/me/project/src/json.py", None),
    ],
)
def test_a_path_has_the_guard_of_the_known_place_above_it(path: str, level: str | None) -> None:
    guard = guard_of(split_path(path), PLACES)
    assert (guard.level if guard else None) == level


@pytest.mark.spec("A-05")
@pytest.mark.parametrize(
    ("piece", "present", "made"),
    [
        ("HEAD", (), False),
        ("config", (), False),
        ("objects", (), False),
        ("readme", ("HEAD", "objects", "refs"), False),
        ("HEAD", ("config",), True),
        ("head", ("objects",), True),
        ("config", ("HEAD",), True),
        ("Config", ("HEAD",), True),
        ("commondir", ("HEAD",), True),
        ("hooks", ("HEAD",), True),
        ("objects", ("refs",), False),
        ("objects", ("refs", "config"), True),
        ("refs", ("objects", "config"), True),
        ("config", ("refs", "objects"), True),
        ("config", ("refs",), False),
        ("HEAD", ("refs", "objects"), True),
    ],
)
def test_the_file_that_completes_a_repository_is_recognised_in_any_order(
    piece: str, present: tuple[str, ...], made: bool
) -> None:
    assert makes_repository(piece, present) is made


@given(st.permutations(["HEAD", "config", "objects", "refs"]))
def test_writing_a_repository_is_recognised_in_every_order(order: list[str]) -> None:
    seen = [makes_repository(piece, order[:count]) for count, piece in enumerate(order)]
    assert any(seen)


@given(st.permutations(["config", "objects", "refs"]))
def test_writing_a_shared_git_directory_is_recognised_in_every_order(order: list[str]) -> None:
    seen = [makes_repository(piece, order[:count]) for count, piece in enumerate(order)]
    assert any(seen)


def test_a_folder_is_a_repository_if_it_has_the_files_that_git_needs() -> None:
    assert is_repository(["HEAD", "objects", "refs", "x"])
    assert is_repository(["HEAD", "commondir"])
    assert not is_repository(["HEAD", "objects"])
    assert not is_repository(["objects", "refs"])


@given(
    st.text(max_size=20),
    st.sampled_from([".git", "sub/.GIT", "git~1", ".asyncagents", ".agents/agents", ".claude/agents"]),
)
def test_every_path_below_a_guarded_folder_is_guarded(name: str, above: str) -> None:
    assert is_guarded_name(f"{above}/{name}x")
