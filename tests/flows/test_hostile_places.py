"""Guarded places against tricks of layout and naming, and everyday edits that must not ask."""

import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from asyncagents.config.config import Config
from asyncagents.domain.conversation.part import ToolCompleted
from asyncagents.llm.scripted import ScriptLine, call, say
from tests.support.hostile.yard import CANARY, Yard, create_yard, describe_call, run_calls, tally_calls
from tests.support.http.server import serve_project
from tests.support.runtime import open_stage

FILES = {"a.txt": "hello\n", "src/one.py": "pass\n"}


def write(path: str, content: str = "pwned\n") -> ScriptLine:
    return call("write", filePath=path, content=content)


def patch(*lines: str) -> ScriptLine:
    return call("patch", patchText="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def rename(path: str, to: str, *hunk: str) -> ScriptLine:
    return patch(f"*** Update File: {path}", f"*** Move to: {to}", *hunk)


def git(place: Path, *words: str) -> None:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *words]
    subprocess.run(named, cwd=place, check=True, capture_output=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """The project is the home itself; it has keys, and a data folder with a token."""
    place = create_yard(tmp_path, FILES)
    for name in list(os.environ):
        if name.startswith(("XDG_", "ASYNCAGENTS_", "GIT_", "ZDOTDIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.root))
    for name in (*KEYS, ".local/share/asyncagents/token"):
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(f"{CANARY}\n")
    (place.root / "k").symlink_to(".ssh/keys")
    return place


KEYS = (
    ".ssh/keys/id_ed25519",
    ".aws/sso/cache/token.json",
    ".config/gh/more/hosts.yml",
    ".gnupg/private-keys-v1.d/one.key",
    ".local/share/keyrings/deep/login",
)


# --- reading by another name


RULES: dict[str, Any] = {"read": {"*": "allow", "*.env": "ask", "secrets/*": "deny"}}


@pytest.mark.spec("A-04", "A-05")
@pytest.mark.parametrize(
    ("name", "hunk"),
    [
        ("prod.env", ()),
        ("secrets/a.txt", ()),
        ("secrets/a.txt", ("@@", "-known", "+known!")),
        ("secrets/a.txt", ("@@", "+added", "*** End of File")),
        ("link", ()),
    ],
)
async def test_a_file_that_may_not_be_read_is_not_moved_to_a_name_that_may(
    tmp_path: Path, name: str, hunk: tuple[str, ...]
) -> None:
    files = {"prod.env": CANARY, "secrets/a.txt": f"known\n{CANARY}\n"}
    place = create_yard(tmp_path, {**FILES, **files})
    (place.root / "link").symlink_to("secrets/a.txt")
    found = await run_calls(tmp_path, place, [rename(name, "plain.txt", *hunk)], permission=RULES)
    assert found.unasked == []
    assert CANARY not in found.text
    assert not (place.root / "plain.txt").exists()


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("name", KEYS)
async def test_a_search_that_begins_inside_of_keys_finds_nothing(
    tmp_path: Path, home: Yard, name: str
) -> None:
    folder = str(Path(name).parent)
    found = await run_calls(
        tmp_path,
        home,
        [
            call("grep", pattern="CANARY", path=folder),
            call("grep", pattern="CANARY", path=str(home.root / folder)),
            call("grep", pattern="CANARY", path="k"),
            call("grep", pattern="CANARY", path=str(Path(folder).parent), include="**/*"),
            call("grep", pattern="CANARY", path=name),
            call("read", filePath=name),
            rename(name, "plain.txt"),
        ],
    )
    assert CANARY not in found.text
    assert found.unasked == [0, 1, 2, 3]


@pytest.mark.spec("A-05", "X-01")
async def test_over_http_the_data_folder_is_not_read_and_searches_leave_keys_out(
    tmp_path: Path, home: Yard
) -> None:
    (home.root / "mine.txt").write_text("CANARY of mine\n")
    async with serve_project(tmp_path, home.root) as at:
        told = [
            await at.get(f"/file/content?path={quote(path)}&directory={quote(str(home.root / folder))}")
            for folder, path in (
                ("", ".local/share/asyncagents/token"),
                (".local", "share/asyncagents/token"),
                (".local/share", "./asyncagents/../asyncagents/token"),
            )
        ]
        lines = [
            await at.get(f"/find?pattern=CANARY&directory={quote(str(home.root / folder))}")
            for folder in ("", ".ssh", ".ssh/keys", ".local", ".aws/sso")
        ]
    assert {each.status for each in told} <= {400, 404}
    assert not any(CANARY in each.text for each in (*told, *lines))
    assert "mine.txt" in lines[0].text


# --- what git obeys


@pytest.mark.spec("A-05")
async def test_files_named_by_the_configuration_of_a_nested_repository_ask(tmp_path: Path) -> None:
    """Submodules and repositories in the project have hooks and programs of their own."""
    place = create_yard(tmp_path, FILES)
    root = place.root
    upstream = tmp_path / "upstream"
    git(tmp_path, "init", "-q", str(upstream))
    git(upstream, "commit", "-q", "--allow-empty", "-m", "1")
    git(root, "submodule", "add", "-q", str(upstream), "module")
    git(root, "init", "-q", "nested")
    (root / "nested" / "real").mkdir()
    (root / "nested" / "linked").symlink_to("real")
    for folder in ("module", "nested"):
        git(root / folder, "config", "core.hooksPath", ".husky")
        git(root / folder, "config", "filter.x.clean", "sh -c './tools/clean.sh %f'")
    git(root / "nested", "config", "--add", "core.hooksPath", "linked")
    git(root, "config", "alias.go", "!f() { ./tools/go.sh; }; f")
    git(root, "config", 'diff.a"b.textconv', "./tools/show.sh")
    git(root, "config", "submodule.module.update", "!./tools/update.sh")
    git(root, "config", "core.sshCommand", "env X=1 ./tools/ssh.sh")
    for number in range(12):
        (root / f"include{number}.cfg").write_text("")
        git(root, "config", "--add", "include.path", f"../include{number}.cfg")
    guarded = [
        *("module/.husky/pre-commit", "nested/.husky/_/h", "module/tools/clean.sh", "nested/tools/clean.sh"),
        *("nested/real/pre-push", "tools/go.sh", "tools/show.sh", "tools/update.sh", "tools/ssh.sh"),
        *("include0.cfg", "include11.cfg"),
    ]
    plain = ["module/src/a.py", "nested/readme.md", "tools/other.sh", ".husky/x", "module/.gitignore"]
    calls = [*(rename("a.txt", path) for path in guarded[:3]), *map(write, guarded)]
    found = await run_calls(tmp_path, place, [*calls, *map(write, plain)])
    assert [describe_call(calls[number]) for number in found.unasked if number < len(calls)] == []
    assert len(found.unasked) == len(plain)


@pytest.mark.spec("A-05")
async def test_git_hooks_configured_during_a_session_ask_from_then_on(tmp_path: Path) -> None:
    """As `npm install` does with husky while a session works."""
    place = create_yard(tmp_path, FILES)
    steps: list[list[ScriptLine]] = [
        [write("plain.txt")],
        [call("bash", command="git config core.hooksPath .husky")],
        [write(".husky/pre-commit")],
        [say("Done.")],
    ]
    rules: dict[str, Any] = {"unclear_command": "allow", "guarded_place": {"*": "deny"}}
    found = await _run(tmp_path, place, steps, permission=rules)
    assert found == ["completed", "completed", "error"]


async def _run(tmp_path: Path, place: Yard, steps: list[list[ScriptLine]], **config: Any) -> list[str]:
    coding = Config(data_dir=tmp_path / "data", **config)
    async with open_stage(tmp_path / "data", {"go": steps}, coding=coding, directory=place.root) as at:
        await at.prompt("go")
        return ["completed" if isinstance(each, ToolCompleted) else "error" for each in await at.states()]


PIECES = [
    ("x/HEAD", "x/objects/a", "x/refs/a", "x/config"),
    ("x/config", "x/objects/a", "x/refs/a", "x/HEAD"),
    ("x/refs/a", "x/config", "x/HEAD", "x/objects/a"),
    ("x/hooks/post-checkout", "x/refs/a", "x/objects/a", "x/HEAD"),
    ("x/HEAD", "x/commondir", "c/objects/a", "c/refs/a", "c/config"),
    ("c/config", "c/refs/a", "c/objects/a", "x/commondir", "x/HEAD"),
    ("x/refs", "x/objects", "x/config", "x/HEAD"),
    ("x/HEAD/no", "x/Head", "x/objects/a", "x/refs/a", "x/config"),
]


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("paths", PIECES, ids=lambda paths: paths[0] + "-" + paths[-1])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in a patch"])
async def test_no_order_of_pieces_makes_a_repository_unasked(
    tmp_path: Path, paths: tuple[str, ...], together: bool
) -> None:
    place = create_yard(tmp_path, FILES)
    if together:
        steps = [[patch(*(line for path in paths for line in (f"*** Add File: {path}", "+x")))], [say("1")]]
    else:
        steps = [*([write(path)] for path in paths), [say("1")]]
    found = await _run(tmp_path, place, steps, permission={"guarded_place": "deny"})
    made = [path for path in paths if (place.root / path).is_file()]
    assert "error" in found
    assert len(made) < len(paths)
    in_x = {path.name for path in (place.root / "x").glob("*")}
    if (place.root / "x" / "HEAD").is_file():
        assert not in_x >= {"objects", "refs"}
        assert "commondir" not in in_x


@pytest.mark.spec("A-05")
async def test_a_checkout_in_a_bare_repository_is_free_and_the_repository_is_not(tmp_path: Path) -> None:
    start = create_yard(tmp_path, FILES)
    git(start.root, "add", "-A")
    git(start.root, "commit", "-q", "-m", "1")
    bare = tmp_path / "all"
    git(tmp_path, "clone", "-q", "--bare", str(start.root), str(bare))
    git(bare, "worktree", "add", "-q", "feature")
    (bare / "hooks" / "inner").mkdir(parents=True)
    (bare / "hooks" / "inner" / ".git").write_text("gitdir: elsewhere\n")
    place = Yard(bare / "feature", start.outside)
    free = [write("new.py"), write("src/hooks/use.ts"), write("config"), rename("a.txt", "b.txt")]
    guarded = [
        write(str(bare / name))
        for name in ("hooks/post-checkout", "hooks/inner/x", "new", "other/x", "feature/.git", "info/grafts")
    ]
    found = await run_calls(
        tmp_path, place, [*free, *guarded], permission={"external_directory": "allow", "edit": "allow"}
    )
    assert found.unasked == [0, 1, 2, 3]


# --- code of a trusted project


SERVERS = """{
  "mcp": {
    "module": {"type": "local", "command": ["python3", "-m", "tools.server"], "enabled": false},
    "shell": {"type": "local", "command": ["bash", "-lc", "cd srv && python3 srv/b.py"], "enabled": false},
    "folder": {"type": "local", "command": ["uv", "run", "--directory", "c", "main.py"], "enabled": false},
    "package": {"type": "local", "command": ["python3", "d"], "enabled": false},
    "short": {"type": "local", "command": ["node", "dist/index"], "enabled": false},
    "env": {"type": "local", "command": ["env", "PYTHONPATH=flib", "python3", "-m", "fmod"],
            "enabled": false},
    "options": {"type": "local", "command": ["node", "g.js"],
                "environment": {"NODE_OPTIONS": "--require ./pre.js"}, "enabled": false},
    "preload": {"type": "local", "command": ["python3", "h.py"],
                "environment": {"LD_PRELOAD": "./lib/x.so"}, "enabled": false},
    "data": {"type": "local", "command": ["npx", "-y", "server-files", "docs", "."], "enabled": false},
    "glued": {"type": "local", "command": ["node", "--import=./setup/hook.mjs", "k.js"], "cwd": "k",
              "enabled": false}
  }
}"""
CODE = [
    *("tools/server.py", "tools/__init__.py", "src/tools/server.py", "srv/b.py", "c/main.py"),
    *("d/__main__.py", "dist/index.js", "flib/fmod.py", "flib/other.py", "fmod.py", "g.js", "pre.js"),
    *("h.py", "lib/x.so", "k/setup/hook.mjs", "k/k.js"),
]
BESIDE = [
    *("tools/client.py", "srv/readme.md", "c/other.py", "d/data.json", "dist/other.js", "src/new.py"),
    *("docs/page.md", "index.js", "main.py", "package.json", "k/other.js", "lib/readme.md"),
]


@pytest.mark.spec("A-05")
async def test_code_that_the_command_of_an_mcp_server_runs_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("c/main.py", "d/__main__.py", "dist/index.js", "docs/x.md", "srv/x")
    place = create_yard(tmp_path, {**FILES, "asyncagents.json": SERVERS, **dict.fromkeys(there, "1\n")})
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    calls = [
        call("edit", filePath=name, oldString="1", newString="2") if name in there else write(name)
        for name in (*CODE, *BESIDE)
    ]
    async with open_stage(
        tmp_path / "data", {"go": [calls, [say("Done.")]]}, coding=True, directory=place.root
    ) as at:
        tally = await tally_calls(at, len(calls))
        assert await at.abort()
    asked = {pattern for ask in tally.asks.values() for pattern in ask.patterns}
    assert asked == set(CODE)


# --- the home as project


@pytest.mark.spec("A-05")
async def test_more_files_that_programs_obey_ask_when_the_home_is_the_project(
    tmp_path: Path, home: Yard
) -> None:
    names = [
        *(".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".mavenrc", ".ipython/profile_default/startup/x.py"),
        *(".gradle/init.d/x.gradle", ".docker/cli-plugins/docker-x", ".rustup/toolchains/x", ".wezterm.lua"),
        *(".config/helix/config.toml", ".config/kitty/kitty.conf", ".config/mise/config.toml", ".gvimrc"),
        *(".julia/config/startup.jl", ".mailcap", ".subversion/config", ".CURLRC", "./x/../.psqlrc"),
    ]
    calls = [make for name in names for make in (write(name), rename("a.txt", name))]
    found = await run_calls(tmp_path, home, calls)
    assert [describe_call(calls[number]) for number in found.unasked] == []


# --- everyday work


EVERYDAY = [
    *("pyproject.toml", "setup.py", "src/app/config/settings.py", "src/app/config.py", "tests/conftest.py"),
    *(".pre-commit-config.yaml", ".github/workflows/ci.yml", ".gitignore", ".gitattributes", "Makefile"),
    *(".vscode/settings.json", ".editorconfig", ".envrc", "Dockerfile", "docker-compose.yml", "bin/run"),
    *("package.json", "tsconfig.json", ".npmrc", ".eslintrc.cjs", "src/components/Head/index.tsx"),
    *("src/components/head/head.css", "src/hooks/useThing.ts", "src/refs/index.ts", "app/objects/rock.py"),
    *("src/components/config/index.ts", "config/default.json", "config/hooks/x.ts", "info/about.md"),
    *("packages/one/package.json", "packages/one/src/HEAD.md", "packages/two/.gitignore", "modules/x.tf"),
    *("apps/web/next.config.js", "pnpm-workspace.yaml", "turbo.json", "worktrees/readme.md", "AGENTS.md"),
    *("module/src/main.c", "module/config", "module/hooks/pre.sh", "CLAUDE.md", ".cursor/rules/x.md"),
    *("bashrc", ".bashrc", ".config/nvim/init.lua", "zsh/.zshrc", "git/config", ".gitconfig", "ssh/config"),
    *("install.sh", ".tmux.conf", "bin/.local/bin/tool", "alembic/versions/1_head.py", "refs.py"),
    *("db/HEAD", "app/models/head.rb", "charts/x/templates/config.yaml", ".husky/pre-commit", "HEAD.md"),
]


@pytest.mark.spec("A-05")
async def test_everyday_edits_of_ordinary_projects_do_not_ask(tmp_path: Path) -> None:
    """Python, Node, a monorepo, submodules, dotfiles: all in one."""
    place = create_yard(tmp_path, {**FILES, "src/components/hooks/a.ts": "a\n", "src/config/a.ts": "a\n"})
    upstream = tmp_path / "upstream"
    git(tmp_path, "init", "-q", str(upstream))
    git(upstream, "commit", "-q", "--allow-empty", "-m", "1")
    git(place.root, "submodule", "add", "-q", str(upstream), "module")
    found = await run_calls(tmp_path, place, [write(name) for name in EVERYDAY])
    assert [EVERYDAY[number] for number, ask in enumerate(found.asks) if ask] == []
    assert len(found.unasked) == len(EVERYDAY)


@pytest.mark.spec("A-05")
async def test_everyday_reads_of_ordinary_projects_do_not_ask(tmp_path: Path) -> None:
    place = create_yard(tmp_path, {**FILES, ".claude/agents/x.md": "x\n", "asyncagents.json": "{}\n"})
    calls = [
        *(call("read", filePath=name) for name in (".git/config", ".git/HEAD", ".claude/agents/x.md")),
        *(call("read", filePath=name) for name in ("asyncagents.json", ".", ".git", "src/", "./src/one.py")),
        *(call("list", path=name) for name in (".", "src", ".claude")),
        *(call("glob", pattern=pattern) for pattern in ("**/*", "*.{md,py}", "src/**")),
        *(call("grep", pattern="pass", path=name) for name in (".", "src", "src/one.py", ".claude")),
        call("edit", filePath="src/one.py", oldString="pass", newString="print()"),
        rename("a.txt", "docs/b.txt"),
    ]
    found = await run_calls(tmp_path, place, calls)
    assert [ask.patterns for ask in found.asks if ask] == []
    assert len(found.unasked) == len(calls)
