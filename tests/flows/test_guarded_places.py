"""What git, asyncagents, a shell or the system obeys is not changed unasked, however it is named."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.scripted import ScriptLine, call, say
from tests.support.hostile.yard import (
    CANARY,
    Yard,
    asks_after_always,
    create_yard,
    describe_call,
    open_coder,
    run_calls,
    tally_calls,
)
from tests.support.runtime import open_stage

FILES = {"a.txt": "hello\n", "src/one.py": "pass\n"}
FSMONITOR = '[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = "touch ../pwned; false"\n'


def write(path: str, content: str = "pwned\n") -> ScriptLine:
    return call("write", filePath=path, content=content)


def patch(*lines: str) -> ScriptLine:
    return call("patch", patchText="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def add(path: str) -> ScriptLine:
    return patch(f"*** Add File: {path}", "+pwned")


def move(path: str) -> ScriptLine:
    return patch("*** Update File: a.txt", f"*** Move to: {path}", "@@", "-hello", "+pwned")


def every_way(paths: Sequence[str]) -> list[ScriptLine]:
    """Each path by each tool that makes a file."""
    return [make(path) for path in paths for make in (write, add, move)]


async def refused_unasked(tmp_path: Path, place: Yard, calls: Sequence[ScriptLine]) -> None:
    """None of the calls runs, each asks in words or is refused, and nothing on the disk is changed."""
    before = place.picture()
    found = await run_calls(tmp_path, place, calls)
    assert [describe_call(calls[number]) for number in found.unasked] == []
    asks = [ask for ask in found.asks if ask is not None]
    assert len(asks) + sum(isinstance(state, ToolFailed) for state in found.states) == len(calls)
    assert len(asks) > len(calls) // 2
    for ask in asks:
        assert ask.permission == "edit"
        assert ask.always == ()
        assert ask.metadata["guarded"]
    assert place.picture() == before


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=place, check=True)


SPELLINGS = [
    ".git/config",
    "sub/.git",
    "a/b/.git",
    "sub/.git/config",
    ".GIT/config",
    "sub/.Git",
    ".git /config",
    ".git./config",
    "git~1/config",
    "sub/GIT~1",
    ".g\u200cit/config",
    ".git\u200e/hooks/x",
    ".git::$INDEX_ALLOCATION/config",
    "./src/../.git/config",
    "src/../sub/../.git/hooks/post-index-change",
    "g/config",
    "g/hooks/post-checkout",
    "src/h",
    ".asyncagents/tools/evil.py",
    "src/.asyncagents/plugins/evil.py",
    ".Claude/agents/evil.md",
    ".claude/worktrees/evil.md",
    ".opencode/opencode.json",
    "src/.agents/skills/x/SKILL.md",
    "AsyncAgents.json",
    "src/opencode.jsonc",
    "src/.hg/hgrc",
    ".jj/repo/config.toml",
]


@pytest.mark.spec("A-04", "A-05")
async def test_files_that_git_and_asyncagents_obey_ask_in_every_spelling(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    (place.root / "g").symlink_to(".git")
    (place.root / "src" / "h").symlink_to("../.git/hooks/post-merge")
    await refused_unasked(tmp_path, place, every_way(SPELLINGS))


@pytest.mark.spec("A-04", "A-05")
async def test_repositories_that_git_finds_elsewhere_ask_as_well(tmp_path: Path) -> None:
    """A bare one, one of a `.git` file, a worktree's and a submodule's, hooks and includes in the project."""
    place = create_yard(tmp_path, FILES)
    root = place.root
    git(root, "commit", "-q", "--allow-empty", "-m", "1")
    git(root, "init", "-q", "--bare", str(root / "bare"))
    git(root, "init", "-q", "--separate-git-dir", str(root / "store"), str(root / "sub"))
    git(root, "worktree", "add", "-q", str(root / "tree"))
    (root / "link").symlink_to("store")
    (root / ".git" / "config").write_text(
        (root / ".git" / "config").read_text()
        + "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../shared.gitconfig\n"
        '[diff "x"]\n\ttextconv = ./tools/show.sh --plain\n[filter "y"]\n\tclean = ./tools/clean %f\n'
    )
    paths = [
        *("bare/config", "bare/hooks/pre-receive", "bare/objects/info/alternates", "bare/new"),
        *("store/config", "store/config.worktree", "store/hooks/pre-commit", "store/info/attributes"),
        *("link/config", "link/hooks/pre-push", "tree/.git", "sub/.git"),
        *(".husky/pre-commit", ".husky/_/husky.sh", "shared.gitconfig", "tools/show.sh"),
    ]
    exist = [path for path in paths if (root / path).exists()]
    calls = every_way([path for path in paths if path not in exist])
    calls += [call("write", filePath=path, content="pwned\n") for path in exist if path.endswith("/.git")]
    found = await run_calls(tmp_path, place, calls)
    assert [describe_call(calls[number]) for number in found.unasked] == []
    assert not list(root.rglob("pwned"))


@pytest.mark.spec("A-04", "A-05")
async def test_in_a_worktree_the_dot_git_file_of_the_project_itself_asks(tmp_path: Path) -> None:
    main = create_yard(tmp_path, FILES)
    git(main.root, "commit", "-q", "--allow-empty", "-m", "1")
    git(main.root, "worktree", "add", "-q", str(tmp_path / "tree"))
    place = Yard(tmp_path / "tree", main.outside)
    (place.root / "a.txt").write_text("hello\n")
    calls = [
        call("edit", filePath=".git", oldString="gitdir", newString="gitdir: x\nwas"),
        patch("*** Update File: .git", "@@", f"-{(place.root / '.git').read_text().strip()}", "+gitdir: x"),
    ]
    await refused_unasked(tmp_path, place, calls)


@pytest.mark.spec("A-04", "A-05")
async def test_a_dot_git_file_and_its_target_cannot_be_planted_unasked(tmp_path: Path) -> None:
    """As the attack did: a `.git` file, a folder that it names, and `git status`, all in two steps."""
    place = create_yard(tmp_path, FILES)
    plant = [
        write("sub/.git", "gitdir: x\n"),
        write("sub/x/HEAD", "ref: refs/heads/m\n"),
        write("sub/x/objects/k", ""),
        write("sub/x/refs/k", ""),
        write("sub/x/config", FSMONITOR),
    ]
    found = await run_calls(tmp_path, place, plant)
    assert found.asks[0] is not None
    (place.root / "sub").mkdir(exist_ok=True)
    narrow = {"bash": {"*": "ask", "git status*": "allow"}}
    status = [call("bash", command="git status", workdir="sub")]
    await run_calls(tmp_path / "later", place, status, permission=narrow)
    assert not list(place.root.rglob("pwned"))


@pytest.mark.spec("A-04", "A-05")
@pytest.mark.parametrize("at_once", ["calls of one step", "sections of one patch"])
async def test_the_target_of_a_dot_git_file_cannot_be_created_piece_by_piece(
    tmp_path: Path, at_once: str
) -> None:
    """The file lies there already, as it may in an archive; what it names is missing."""
    place = create_yard(tmp_path, FILES)
    (place.root / "sub").mkdir()
    (place.root / "sub" / ".git").write_text("gitdir: x\n")
    pieces = {
        "sub/x/HEAD": "ref: refs/heads/m",
        "sub/x/objects/k": "",
        "sub/x/refs/k": "",
        "sub/x/config": FSMONITOR.strip(),
    }
    if at_once == "calls of one step":
        calls = [write(path, f"{text}\n") for path, text in pieces.items()]
    else:
        added = [
            [f"*** Add File: {path}", *(f"+{line}" for line in (text or "-").split("\n"))]
            for path, text in pieces.items()
        ]
        calls = [patch(*(line for lines in added for line in lines))]
    found = await run_calls(tmp_path, place, calls)
    assert len(found.unasked) < len(calls)
    made = [name for name in ("HEAD", "objects", "refs") if (place.root / "sub" / "x" / name).exists()]
    assert len(made) < 3 or not (place.root / "sub" / "x" / "config").exists()
    git_status = [call("bash", command="git status", workdir="sub")]
    await run_calls(tmp_path / "later", place, git_status)
    assert not list(place.root.rglob("pwned"))


@pytest.mark.spec("A-04")
async def test_neither_always_nor_rules_for_all_edits_cover_a_guarded_place(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    asks = await asks_after_always(
        tmp_path, place, [write("new.txt")], [write("sub/.git"), write("x.txt")], permission={"edit": "ask"}
    )
    assert [ask.patterns for ask in asks] == [("sub/.git",)]
    found = await run_calls(
        tmp_path / "more", place, [write("sub/.git")], permission={"*": "allow", "edit": "allow"}
    )
    assert found.unasked == []


@pytest.mark.spec("A-04")
async def test_a_guarded_place_rule_allows_one_path_and_denies_others(
    tmp_path: Path,
) -> None:
    place = create_yard(tmp_path, FILES)
    rules = {"guarded_place": {"*": "deny", "sub/.git": "allow"}}
    found = await run_calls(tmp_path, place, [write("sub/.git"), write("other/.git")], permission=rules)
    assert found.unasked == [0]
    assert isinstance(found.states[1], ToolFailed)


@pytest.mark.spec("A-05")
async def test_ordinary_files_that_look_alike_are_written_unasked(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    names = [
        *(".gitignore", ".gitattributes", ".gitmodules", ".github/workflows/ci.yml", "AGENTS.md", "x/HEAD"),
        *(
            "y/config",
            "hooks/use.ts",
            "src/objects/a.py",
            "src/refs/b.py",
            "bin/run",
            ".bashrc",
            ".ssh/config",
        ),
        *("git/config", ".husky/pre-commit", ".claude/worktrees/one/src/a.py", "info/x"),
    ]
    found = await run_calls(tmp_path, place, [write(name) for name in names])
    assert [ask.patterns for ask in found.asks if ask] == []
    assert len(found.unasked) == len(names)


# --- the user's home as a project


HOME_FILES = [
    *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".inputrc"),
    *(".BASHRC", "x/../.profile", ".config/fish/config.fish", ".gitconfig", ".config/git/config"),
    *(".config/git/hooks/pre-commit", ".ssh/authorized_keys", ".ssh/rc", ".gnupg/gpg-agent.conf"),
    *(".config/autostart/x.desktop", ".config/systemd/user/x.service", ".config/environment.d/x.conf"),
    *(".npmrc", ".pypirc", ".netrc", ".local/bin/ls", "bin/git", ".config/asyncagents/tools/evil.py"),
    *(".config/asyncagents/plugins/evil.py", ".config/asyncagents/trusted.json", ".asyncagents/tools/x.py"),
    *(".config/asyncagents/AGENTS.md", ".config/opencode/opencode.json", ".claude/agents/x.md"),
    *(".agents/skills/x/SKILL.md", ".opencode/agent/x.md", "shell/extra", "conf/asyncagents/tools/x.py"),
    *("own/bin/tool", ".xprofile", ".tmux.conf", ".local/lib/python3.11/site-packages/usercustomize.py"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """The project is the home itself, and the usual data folder in it has a token."""
    place = create_yard(tmp_path, FILES)
    for name in list(os.environ):
        if name.startswith(("XDG_", "ASYNCAGENTS_", "GIT_", "ZDOTDIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.root))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{place.root}/own/bin")
    data = place.root / ".local" / "share" / "asyncagents"
    (data / "tool-output").mkdir(parents=True)
    for name in ("token", "server.json", "asyncagents.db", "tool-output/output-other.log"):
        (data / name).write_text(f"{CANARY}\n")
    return place


@pytest.mark.spec("A-04", "A-05")
async def test_files_that_programs_obey_ask_when_the_home_is_the_project(tmp_path: Path, home: Yard) -> None:
    (home.root / "shell").mkdir()
    (home.root / "shell" / "extra").write_text("")
    (home.root / ".bash_aliases").symlink_to("shell/extra")
    (home.root / "conf").symlink_to(".config")
    names = [name for name in HOME_FILES if name != "shell/extra"]
    await refused_unasked(tmp_path, home, [*every_way(names), move("shell/../.bash_aliases2/../.zlogin")])
    edits = [
        call("read", filePath="shell/extra"),
        call("edit", filePath="shell/extra", oldString="", newString="x"),
    ]
    found = await run_calls(tmp_path / "edits", home, edits[1:])
    assert found.unasked == []


READS = [
    *(".local/share/asyncagents/token", ".local/share/asyncagents/server.json", ".local/share/asyncagents"),
    *(
        ".local/share/asyncagents/asyncagents.db",
        ".LOCAL/../.local/share/asyncagents/token",
        "data-link/token",
    ),
    *("token-link", ".local/share/asyncagents/tool-output", ".local/share/asyncagents/new.txt"),
    ".local/share/asyncagents/tool-output/output-other.log",
]


@pytest.mark.spec("A-05")
async def test_no_tool_opens_the_data_folder(tmp_path: Path, home: Yard) -> None:
    data = home.root / ".local" / "share" / "asyncagents"
    (home.root / ".LOCAL").mkdir()
    (home.root / "data-link").symlink_to(data)
    (home.root / "token-link").symlink_to(data / "token")
    calls = [
        line
        for path in READS
        for line in (
            call("read", filePath=path),
            call("list", path=path),
            call("glob", pattern="**/*", path=path),
            call("grep", pattern="CANARY", path=path),
            call("edit", filePath=path, oldString=CANARY, newString="pwned"),
            write(path),
            add(path),
            patch(f"*** Update File: {path}", "@@", f"-{CANARY}", "+pwned"),
            patch(f"*** Delete File: {path}"),
            move(path),
        )
    ]
    before = home.picture()
    found = await run_calls(tmp_path, home, calls)
    assert [describe_call(calls[number]) for number in found.unasked] == []
    assert [ask for ask in found.asks if ask] == []
    assert all(isinstance(state, ToolFailed) and "data folder" in state.error for state in found.states)
    assert CANARY not in found.text
    assert home.picture() == before


@pytest.mark.spec("A-05")
async def test_searches_leave_out_the_data_folder_and_secret_files(tmp_path: Path, home: Yard) -> None:
    (home.root / ".ssh").mkdir()
    (home.root / ".ssh" / "id_ed25519").write_text(f"{CANARY}\n")
    (home.root / "mine.txt").write_text("mine\n")
    calls = [
        call("grep", pattern="CANARY|mine"),
        call("grep", pattern="CANARY", path=".local"),
        call("grep", pattern="CANARY", path=".ssh"),
        call("glob", pattern="**/token"),
        call("glob", pattern="**/*", path=".local/share"),
        call("list", path=".local/share"),
        call("list"),
    ]
    found = await run_calls(tmp_path, home, calls)
    assert len(found.unasked) == len(calls)
    assert CANARY not in found.text
    assert "mine.txt" in found.text
    listed = [state.output for state in found.states[3:] if isinstance(state, ToolCompleted)]
    assert [output for output in listed if "share/asyncagents" in output or "asyncagents/\n" in output] == []


@pytest.mark.spec("A-05")
async def test_a_data_folder_inside_the_project_is_sealed_too(
    tmp_path: Path,
) -> None:
    place = create_yard(tmp_path, FILES)
    state = place.root / "state"
    calls = [
        call("read", filePath="state/data/asyncagents.db"),
        call("grep", pattern="SQLite", path="state"),
        write("state/data/token", "x"),
        write("state/mine.txt", "x"),
    ]
    found = await run_calls(state, place, calls)
    assert found.unasked == [1, 3]
    assert "SQLite format" not in found.text


@pytest.mark.spec("A-05")
async def test_reading_keys_and_the_trust_file_asks(tmp_path: Path, home: Yard) -> None:
    names = [
        *(".config/asyncagents/asyncagents.json", ".config/asyncagents/trusted.json", ".ssh/id_ed25519"),
        *(".config/opencode/opencode.json", ".netrc", ".npmrc", ".aws/credentials", ".config/gh/hosts.yml"),
        *(".local/share/opencode/auth.json", ".claude/.credentials.json", "keys/id_ed25519"),
    ]
    (home.root / "keys").symlink_to(".ssh")
    for name in names:
        (home.root / name).parent.mkdir(parents=True, exist_ok=True)
        (home.root / name).write_text("" if name.endswith(("agents.json", "code.json")) else CANARY)
    (home.root / ".config/asyncagents/trusted.json").write_text('{"trusted": []}')
    (home.root / ".config/asyncagents/asyncagents.json").write_text("{}")
    (home.root / ".config/opencode/opencode.json").write_text("{}")
    calls = [call("read", filePath=name) for name in names]
    calls += [call("grep", pattern="CANARY", path=name) for name in names]
    found = await run_calls(tmp_path, home, calls)
    assert [describe_call(calls[number]) for number in found.unasked] == []
    assert {ask.permission for ask in found.asks if ask} == {"read"}
    assert CANARY not in found.text


LINES = [
    "cp a.txt .bashrc",
    "mv a.txt .config/asyncagents/tools/x.py",
    "tee .profile",
    "cd .config && cp ../a.txt git/config",
    "cd .ssh; touch authorized_keys",
    "ln -s a.txt .zshrc",
    "rm -rf .git",
    "mkdir -p .asyncagents/tools",
    "chmod +x .git/hooks/pre-commit",
    "install a.txt .local/bin/ls",
    "touch ~/.zshenv",
    "cp a.txt $HOME/.zshenv",
    "dd if=a.txt of=.gitconfig",
    "rsync a.txt .gitconfig",
    "git mv a.txt .claude/agents/x.md",
    "git checkout HEAD -- asyncagents.json",
    "cat .local/share/asyncagents/token",
    "head -c 100 .local/share/asyncagents/*",
    "cat token-link",
    "cat .ssh/id_ed25519",
    "base64 .netrc",
    "cat .config/asyncagents/asyncagents.json",
    "cat .config/asyncagents/trusted.json",
    "ls .local/share/asyncagents",
    "cd .local/share && cat asyncagents/token",
    "grep -r CANARY .",
    "grep -rn CANARY .local",
    "rg CANARY",
    "tar cf all.tar .",
    "cp -r .local copy",
    "cp -a . ../outside/copy",
    "python3 -c 1 .local/share/asyncagents/token",
    "cat < .ssh/id_ed25519",
    "timeout 5 cat .ssh/id_ed25519",
    "cat .*/*/*/*",
    "cat .loc*/share/async*/tok*",
    "find .git -delete",
]


@pytest.mark.spec("A-05")
async def test_a_line_that_names_a_guarded_place_asks_though_commands_are_allowed(
    tmp_path: Path, home: Yard
) -> None:
    (home.root / "token-link").symlink_to(home.root / ".local/share/asyncagents/token")
    for name in (".ssh/id_ed25519", ".netrc"):
        (home.root / name).parent.mkdir(exist_ok=True)
        (home.root / name).write_text(CANARY)
    (home.root / ".git" / "hooks").mkdir(exist_ok=True)
    rules = {"*": "allow", "bash": "allow", "unclear_command": "allow", "external_directory": "allow"}
    calls = [call("bash", command=line) for line in LINES]
    before = home.picture()
    found = await run_calls(tmp_path, home, calls, permission=rules)
    assert [describe_call(calls[number]) for number in found.unasked] == []
    assert {ask.permission for ask in found.asks if ask} == {"guarded_place"}
    assert home.picture() == before


@pytest.mark.spec("A-05")
async def test_commands_that_only_read_guarded_places_run_unasked(tmp_path: Path) -> None:
    place = create_yard(tmp_path, {**FILES, ".claude/agents/x.md": "x\n", "asyncagents.jsonc": "{}\n"})
    lines = [
        *("ls -la .git", "cat .git/HEAD", "find . -name .git", "cat .claude/agents/x.md", "git status"),
        *("git diff asyncagents.jsonc", "git add .claude", "wc -l asyncagents.jsonc", "grep -rn x .claude"),
        *("cd .git && ls hooks", "tar cf x.tar --exclude=.git src", "tar cf y.tar --exclude .git src"),
        *("cp a.txt b.txt", "mkdir -p hooks", "touch HEAD", "rm b.txt", "git log HEAD", "ls > /dev/null"),
    ]
    rules = {"unclear_command": "allow"}
    found = await run_calls(tmp_path, place, [call("bash", command=line) for line in lines], permission=rules)
    assert [ask.metadata for ask in found.asks if ask] == []


@pytest.mark.spec("A-05")
async def test_output_that_was_saved_is_read_by_its_name_and_its_folder_is_not_shown(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    long = call("bash", command="seq 1 60000")
    async with open_coder(tmp_path, place, [long]) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    saved = state.metadata["outputPath"]
    calls = [
        call("read", filePath=saved, offset=30_000, limit=2),
        call("grep", pattern="^59999$", path=saved),
        call("read", filePath=str(Path(saved).parent)),
        call("glob", pattern="*", path=str(Path(saved).parent)),
        write(saved),
    ]
    found = await run_calls(tmp_path, place, calls)
    assert found.unasked == [0, 1]
    assert "30000" in found.text
    assert "59999" in found.text
    assert [ask is not None for ask in found.asks] == [False, False, False, False, True]


# --- code that the configuration of a trusted project names


@pytest.mark.spec("A-05")
async def test_code_that_the_configuration_names_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = create_yard(
        tmp_path,
        {
            **FILES,
            "hooks/my.py": "def plugin(*a, **k):\n    return None\n",
            "prompts/build.txt": "Work.\n",
            "asyncagents.json": """{
              "plugin": ["./hooks/my.py"],
              "mcp": {
                "one": {"type": "local", "command": ["python3", "servers/one/main.py"], "enabled": false},
                "two": {"type": "local", "command": ["node", "--require=./setup/pre.js", "two.mjs"],
                        "environment": {"NODE_PATH": "vendor/lib"}, "enabled": false},
                "three": {"type": "local", "command": ["./run.sh"], "cwd": "deploy", "enabled": false}
              },
              "agent": {"build": {"prompt": "{file:./prompts/build.txt}"}}
            }""",
            "two.mjs": "one\n",
            "vendor/lib/x.js": "one\n",
        },
    )
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    (place.root / "alias").symlink_to("hooks")
    known = {"hooks/my.py": "None", "prompts/build.txt": "Work", "two.mjs": "one", "vendor/lib/x.js": "one"}
    fresh = [
        *("hooks/json.py", "alias/new.py", "hooks/deep/x.py", "servers/one/main.py"),
        *("setup/pre.js", "vendor/lib/y/z.js", "deploy/run.sh", "HOOKS/my.py"),
    ]
    plain = [
        "src/new.py",
        "other.py",
        "servers/one/json.py",
        "setup/other.js",
        "other.mjs",
        "vendor/x.js",
        "prompts/other.txt",
        "servers/readme.md",
        "AGENTS.md",
    ]
    guarded = [*(call("edit", filePath=name, oldString=old, newString="x") for name, old in known.items())]
    guarded += every_way([name for name in fresh if name != "HOOKS/my.py"])
    calls = [*guarded, *(write(name) for name in plain)]
    script = {"go": [calls, [say("Done.")]]}
    before = place.picture()
    async with open_stage(tmp_path / "data", script, coding=True, directory=place.root) as at:
        tally = await tally_calls(at, len(calls))
        assert await at.abort()
    asked = {ask.patterns for ask in tally.asks.values()}
    assert len(tally.asks) == len(guarded), asked
    after = {name: held for name, held in place.picture().items() if name in before}
    assert after == before
    assert all((place.root / name).exists() for name in plain)


@pytest.mark.spec("A-05")
async def test_a_plugin_that_was_read_is_not_rewritten_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the attack did: read the plugin that the configuration names, then write it."""
    text = "def plugin(*a, **k):\n    return None\n"
    place = create_yard(
        tmp_path, {**FILES, "hooks/my.py": text, "asyncagents.json": '{"plugin": ["./hooks/my.py"]}'}
    )
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    turns: list[list[ScriptLine]] = [
        [call("read", filePath="hooks/my.py")],
        [write("hooks/my.py", "import os\n")],
        [say("Done.")],
    ]
    async with open_stage(tmp_path / "data", {"go": turns}, coding=True, directory=place.root) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert asked.request.patterns == ("hooks/my.py",)
        assert await at.abort()
    assert (place.root / "hooks" / "my.py").read_text() == text


# --- git, run by agents


NARROW = {"bash": {"*": "ask", "git *": "allow"}}
HOOK = "#!/bin/sh\ntouch hooked\n"


def hooked(tmp_path: Path) -> Yard:
    place = create_yard(tmp_path, FILES)
    git(place.root, "config", "user.name", "a")
    git(place.root, "config", "user.email", "a@b")
    git(place.root, "config", "core.fsmonitor", "touch pwned; false")
    for name in ("post-index-change", "pre-commit"):
        hook = place.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(HOOK)
        hook.chmod(0o755)
    return place


COMMIT = [call("bash", command="git add a.txt && git commit -q -m one && git status && git diff")]


@pytest.mark.spec("A-05")
async def test_where_rules_allow_git_alone_no_hook_and_no_monitor_is_run(tmp_path: Path) -> None:
    place = hooked(tmp_path)
    found = await run_calls(tmp_path, place, COMMIT, permission=NARROW)
    assert found.unasked == [0]
    assert not (place.root / "pwned").exists()
    assert not (place.root / "hooked").exists()


@pytest.mark.spec("A-05")
async def test_hooks_are_run_where_any_program_is_allowed_and_the_monitor_is_not(tmp_path: Path) -> None:
    place = hooked(tmp_path)
    found = await run_calls(tmp_path, place, COMMIT)
    assert found.unasked == [0]
    assert not (place.root / "pwned").exists()
    assert (place.root / "hooked").exists()


@pytest.mark.spec("A-05")
async def test_hooks_are_run_for_a_line_that_a_person_approved(tmp_path: Path) -> None:
    place = hooked(tmp_path)
    rules = {"bash": {"*": "ask", "git status*": "allow"}}
    async with open_coder(tmp_path, place, COMMIT, permission=rules) as at:
        tally = await tally_calls(at, 1)
        (ask,) = tally.asks.values()
        await at.runtime.answer(ask.id, "once")
        await at.runtime.wait(at.session_id)
    assert (place.root / "hooked").exists()
    assert not (place.root / "pwned").exists()
