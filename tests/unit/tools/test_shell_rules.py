"""A shell line under rules: what is plain is judged by them, what could hide something asks."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.agent.permission import Action, LineageRules, decide
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.project import judge_ask
from asyncagents.tools.shell.rules import command_asks, parse_command

HOME = Path("/home/someone")
PROJECT = Path("/project")


def rules(**actions: Action) -> tuple[Rule, ...]:
    return tuple(
        Rule(permission="bash", pattern=f"{name} *", action=action) for name, action in actions.items()
    )


ALLOWED = rules(git="allow", ls="allow", cat="allow")


def judge(ask: Ask, by: tuple[Rule, ...]) -> Action:
    """As the permission layer does: when an ask is for always, rules may only deny."""
    action = decide(by, ask.permission, ask.patterns)
    return "ask" if action == "allow" and ask.also else action


def verdict(command: str, by: tuple[Rule, ...] = ALLOWED) -> Action:
    asked = command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)
    actions = {judge(ask, by) for ask in asked}
    return "deny" if "deny" in actions else "ask" if "ask" in actions else "allow"


PLAIN = [
    "git status",
    "git commit -m 'a; rm -rf /'",
    'git commit -m "a message\n\nof $HOME\'s lines"',
    "git log --oneline -n 5",
    "git --no-pager diff HEAD~1 -- a.py",
    "git show stash@{0}",
    "git \\\n  status",
    "ls -la src | cat",
    "ls 2>&1",
    "ls x 2>/dev/null || git status",
    "ls src # what is there",
    "# first\nls\n\ngit status",
    "if ls a; then cat b; else git status; fi",
    "for i in a b; do ls src; done",
    "( ls; cat x )",
    "{ ls; }",
    "! ls",
    "cat *.py",
    "cat <<EOF\nhello\nEOF",
    "cat <<'EOF'\n$(rm -rf /)\nEOF",
    "cat <<-EOF\n\thello\n\tEOF\nls",
    "cat < notes.txt",
    "[ -f x ] && cat x",
    "'ls' \"src\"",
    "\\ls",
    "/bin/ls src",
    "CI=1 git status",
]

HOSTILE = [
    "",
    "   ",
    "# only a comment",
    "rm -rf /",
    "ls; rm -rf /",
    "ls && rm -rf /",
    "ls || rm -rf /",
    "ls | sh",
    "ls & rm x",
    "ls &",
    "ls\nrm -rf /",
    "ls\r\nrm x",
    "ls $(rm x)",
    "ls `rm x`",
    'ls "$(rm x)"',
    'ls "`rm x`"',
    'ls "${x:-$(rm x)}"',
    "ls $((`rm x`))",
    "cat <(rm x)",
    "cat > >(sh)",
    "cat x > ~/.bashrc",
    "cat x >> a",
    "cat x >| a",
    "cat x &> a",
    "cat x >& a",
    "cat x <> a",
    "cat < /dev/tcp/example.org/80",
    "$(echo rm) x",
    "`echo rm` x",
    "$X",
    "$X status",
    "${X}ls",
    "l$X",
    "git $X",
    "ls $X",
    "X=rm; $X y",
    "PATH=/tmp ls",
    "LD_PRELOAD=/tmp/x.so ls",
    "IFS=x ls",
    "GIT_SSH_COMMAND=evil git fetch",
    "GIT_PAGER='sh -c evil' git log",
    "BASH_ENV=x cat y",
    "export PATH=/tmp && ls",
    "for PATH in /tmp; do ls; done",
    "eval 'rm x'",
    "source evil.sh",
    ". evil.sh",
    "exec rm x",
    "sudo ls",
    "env ls",
    "env X=1 rm x",
    "nohup ls",
    "setsid ls",
    "xargs rm",
    "ls | xargs rm",
    "ls | xargs git",
    "sh -c 'ls'",
    "bash -c 'rm x'",
    "bash <<EOF\nrm x\nEOF",
    "timeout 5 rm x",
    "time rm x",
    "command rm x",
    "builtin eval ls",
    "find . -exec rm {} ;",
    "find . -delete",
    "{rm,-rf,/}",
    "{git,status}",
    "ls /{etc,root}",
    "ls {a..z}",
    "alias ls=rm",
    "alias ls=rm\nls x",
    "ls() { rm x; }; ls",
    "function git { rm x; }; git",
    "$'rm' x",
    "$'\\x72m' x",
    'git $"status"',
    "ls\u00a0-la; rm x",
    "git\u00a0status",
    "ls \u200bx",
    "ls \u2028rm x",
    "ls \x00rm",
    "ls \x1b[2K",
    "ls \u202ex",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<EOF\n${x:=`rm x`}\nEOF",
    "cat <<E'O'F\nEOF\nrm x\nE'O'F",
    "cat <<\\EOF\nEOF\nrm x\n\\EOF",
    "cat <<EOF\nEOF\nrm x\nEOF",
    "cat <<A <<B\nA\nrm x\nB\n",
    "ls \\ #x; rm x",
    'ls "x"#y; rm x',
    "ls \\\\\nrm x",
    "git stat\\\nus; r\\\nm x",
    "r\\\nm x",
    "l\\s; r''m x",
    "r''m x",
    "'rm' x",
    '"rm" x',
    "\\rm x",
    "/bin/rm x",
    "/tmp/ls",
    "./ls",
    "../ls",
    "~/ls",
    "l?",
    "/bin/l*",
    "[[ -v 'a[$(rm x)]' ]] && ls",
    "[[ 'a[$(rm x)]' -eq 1 ]] && ls",
    "((x=1)); ls",
    "let x=1; ls",
    "coproc ls",
    "trap 'rm x' EXIT; ls",
    "set -x; ls",
    "ls 'unclosed",
    'ls "unclosed',
    "ls (",
    "ls )",
    "if ls",
    "ls ;; rm",
    "git -c core.pager='rm x' log",
    "git -c alias.x='!rm x' x",
    "git --exec-path=/tmp status",
    "git --config-env=core.pager=X log",
    "git -C /tmp status",
    "git --git-dir=/tmp/x status",
    "git -p log",
    "git x",
    "git config core.pager 'rm x'",
    "git difftool -x 'rm x'",
    "git rebase -x 'rm x' HEAD~1",
    "git rebase --exec='rm x' HEAD~1",
    "git rebase -ix 'rm x' HEAD~1",
    "git bisect run rm x",
    "git submodule foreach 'rm x'",
    "git filter-branch --tree-filter 'rm x'",
    "git grep -O'rm x' y",
    "git grep --open-files-in-pager='rm x' y",
    "git fetch --upload-pack='rm x' .",
    "git fetch --upload-p='rm x' .",
    "git clone -u 'rm x' .",
    "git clone ext::sh",
    "git diff --output=.bashrc",
    "git diff --no-index a b",
    "git log --output .git/hooks/x",
    "git push --receive-pack='rm x' .",
    "git *",
    "cat /etc/passwd",
    "cat ../secret",
    "cat src/../../secret",
    "cat ~/.ssh/id_rsa",
    "cat $HOME/.ssh/id_rsa",
    "cat ~root/.bashrc",
    "cat < /etc/passwd",
    "cat /etc/*",
    "cat '/etc/passwd'",
    "cat /e''tc/passwd",
    "cat /proc/self/environ",
    "ls --ignore=x /root",
    "git add /etc/passwd",
    "cd .. && ls",
    "cd / && cat etc/passwd",
    "cd src && cat ../../x",
    "cd -; ls",
    "pushd /; ls",
    "ls\n\\rm x",
    "ls\n\\\nrm x",
    "cat >/dev/null /etc/passwd",
    "cat 2>&1 /etc/passwd",
    "git <<EOF -c core.pager=x log\nEOF",
    "cat <<< x /etc/passwd",
    "l's'\\[x",
    '!"ls" x',
    "ls\n-x2>&1",
    "ls -ffunctionrm2>&1",
    "cat } [[",
    "ls x=``",
    "cat é``x",
]


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("command", PLAIN)
def test_a_plain_command_is_judged_by_the_rules_alone(command: str) -> None:
    # `[ -f x ]` runs nothing.
    assert verdict(command) == "allow", parse_command(command)


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("command", HOSTILE)
def test_a_hostile_command_does_not_pass_an_allow_list(command: str) -> None:
    assert verdict(command) == "ask"


def test_the_list_of_hostile_commands_is_long_and_without_duplicates() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


# Under a rule that allows all, only what a rule cannot judge is still asked about.
@pytest.mark.parametrize(
    "command",
    [
        "", "ls $(rm x)", "cat <(x)", "eval ls", "ls > x", "ls &",
        "sudo ls", "$X", "ls | xargs rm", "sh -c ls", "env ls",
        "find . -exec ls", "awk 'BEGIN{system(\"x\")}'", "sed '1e rm x' y", "sed 's/a/b/e' y",
        "tar cIf 'rm x' a b", "sort -o x y", "rg --pre=x y", "nice -n 5 rm x",
    ],
)  # fmt: skip
def test_an_unclear_command_asks_even_when_all_is_allowed(command: str) -> None:
    everything = (Rule(permission="*", pattern="*", action="allow"),)
    assert verdict(command, everything) == "ask"
    assert command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)[-1].always in ((), (command,))


@pytest.mark.spec("A-03")
@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls; rm x", "ls $(rm x)", "ls `rm x`", "cat <(rm x)", "sudo rm x", "sudo -u a rm x", "'rm' x",
        "r\"m\" x", "\\rm x", "/bin/rm x", "/usr/bin/rm x", "ls | xargs rm", "xargs -n 1 rm", "env A=1 rm x",
        "sh -c 'rm x'", "bash -lc 'ls; rm x'", "eval 'rm x'", "eval rm x", "timeout 5 rm x", "nohup rm x &",
        "find . -exec rm {} +", "ls() { rm x; }", "if ls; then rm x; fi", "A=1 rm x", "rm x > y", "! rm x",
        "time rm x", "(rm x)", "{ rm x; }", "rm x <<EOF\nEOF", "ls \"$(rm x)\"", "sudo env sh -c 'rm x'",
        "sudo /bin/rm x", "xargs -n 1 -P 4 rm",
    ],
)  # fmt: skip
def test_a_denied_command_is_denied_wherever_it_stands(command: str) -> None:
    everything = (Rule(permission="*", pattern="*", action="allow"), *rules(rm="deny"))
    assert verdict(command, everything) == "deny", parse_command(command)


def test_each_simple_command_is_a_pattern() -> None:
    parsed = parse_command("git commit -m 'x y' && npm run build | wc -l; git -v")
    assert parsed.patterns == ("git commit -m 'x y'", "npm run build", "wc -l", "git -v")
    assert not parsed.asks_always


def test_an_approval_covers_the_command_that_it_was_offered_for() -> None:
    for command in PLAIN:
        (ask,) = command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)
        permission = "exact:bash" if ask.exact else "bash"
        granted = tuple(Rule(permission=permission, pattern=text, action="allow") for text in ask.always)
        assert judge_ask(ask, LineageRules(()), granted) == "allow", command


def outside(command: str, project: Path, start: Path | None = None) -> set[str]:
    asked = command_asks(command, directory=project, start=start or project, home=HOME)
    return {pattern for ask in asked if ask.permission == "external_directory" for pattern in ask.patterns}


def test_paths_outside_the_project_ask_for_their_folder(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "src").mkdir(parents=True)
    other.mkdir()
    assert outside(f"cat {project}/a src/b ./c", project) == set()
    assert outside(f"cp a {other}/b", project) == {f"{other}/*"}
    assert outside(f"ls {other}", project) == {f"{other}/*"}
    assert outside(f"cp --target-directory={other} a", project) == {f"{other}/*"}
    assert outside(f"cp -t{other} a", project) == {f"{other}/*"}
    assert outside("touch ../new", project) == {f"{tmp_path}/*"}
    assert outside("cat ../x", project, project / "src") == set()
    assert outside("ls", project, other) == {f"{other}/*"}
    assert outside("mv a ~/b", project) == {f"{HOME}/*"}
    assert outside("echo /etc/x 2>/dev/null", project) == {"/etc/*"}


def test_a_link_out_of_the_project_is_outside(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret").write_text("x")
    (project / "link").symlink_to(tmp_path / "secret")
    (project / "folder").symlink_to(tmp_path)
    assert outside("cat link", project) == {f"{tmp_path}/*"}
    assert outside("cat folder/secret", project) == {f"{tmp_path}/*"}
    assert outside("cd folder && cat secret", project) == {f"{tmp_path}/*"}


def test_a_very_long_or_deep_command_asks() -> None:
    assert verdict("ls " + "x" * 50_000) == "ask"
    assert verdict("(" * 5000 + "ls" + ")" * 5000) == "ask"
    assert verdict("sudo " * 3000 + "ls") == "ask"
    assert verdict("ls " + "a" * 15_000) == "allow"


@given(st.text(max_size=200))
def test_any_text_as_a_command_gives_asks(command: str) -> None:
    parsed = parse_command(command)
    assert parsed.patterns
    assert all(parsed.patterns)
    command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)


SHELL = "ls git rm x cat é ' \" ` $( ) ( { } , \\ ; & | > < << EOF $ # * ~ / .. = ! [ ] if do $'"
PIECES = st.sampled_from([*SHELL.split(" "), "\n", "\t", " "])


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_mix_of_shell_syntax_gives_asks(command: str) -> None:
    assert parse_command(command).patterns
    command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)


LINES = (
    "ls git rm x cat é ' \" ` $( ) ( { } , \\ ; & | > < << EOF $ # = ! [ ] if then fi do done for in "
    "$' <<- <<< ;; case esac [[ ]] && || |& 2>&1 >/dev/null -f x= #x function time coproc select $? : \\r"
)
WORDS = LINES.split()
BREAKS = [
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\t",
    "\\\n",
    "\n\\",
    "\nEOF\n",
    "<<EOF\n",
    "ls ",
    "cat ",
    "; rm x",
    "\nrm y\n",
]
# bash calls it with the words of each command that it does not find; here it finds none.
LOGGED = """() { local words; printf -v words '%s\\1' "$@"; printf '%s\\2' "$words" >> "$LOG"; }"""


def run_by_bash(line: str, folder: Path) -> set[tuple[str, ...]]:
    """The words of each command that bash itself finds in the line."""
    log = folder / "log"
    log.write_text("")
    environment = {"PATH": "/nowhere", "LOG": str(log), "BASH_FUNC_command_not_found_handle%%": LOGGED}
    command = [shutil.which("bash") or "bash", "-c", line]
    subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return {tuple(entry.split("\1")[:-1]) for entry in log.read_text().split("\2")[:-1]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_bash_runs_only_the_commands_that_the_parser_finds_in_a_plain_line(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(4000):
        line = "".join(rng.choice(WORDS if rng.random() < 0.6 else BREAKS) for _ in range(rng.randint(1, 14)))
        parsed = parse_command(line)
        if not parsed.asks_always and "$" not in line:
            compared += 1
            assert run_by_bash(line, tmp_path) <= set(parsed.commands), line
            assert [entry.name for entry in tmp_path.iterdir()] == ["log"], line
    assert compared > 50


def test_no_character_kills_the_parser() -> None:
    """Its grammar reads beyond a table for characters that are rare; where that ends is a matter of luck."""
    for code in range(0x80, 0x110000, 251):
        if not 0xD800 <= code < 0xE000:
            parse_command(f"ls a{chr(code)}b $x{chr(code)} {chr(code)}=1 '{chr(code)}' <<{chr(code)}")


def test_a_command_in_any_script_is_read_as_it_stands() -> None:
    parsed = parse_command("git commit -m 'größer – 𝔵 ✓' datei-ü.txt")
    assert parsed.commands == (("git", "commit", "-m", "größer – 𝔵 ✓", "datei-ü.txt"),)
    assert not parsed.asks_always


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    "command", ["echo $(date)", " echo $(date) ", "for i in *; do eval $i; done", "a\n\tb `c`"]
)
def test_an_unclear_line_can_be_approved_exactly(command: str) -> None:
    *_, ask = command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)
    assert ask.always == (command,)
    assert ask.exact is True
    assert ask.also == ("unclear_command",)


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    "command",
    ["", "echo $(date)\x1b[2K", "echo $(a)\u202e", "echo $(\u200b)", "$(x)\n" * 30, f"$({'x' * 3000})"],
)
def test_a_line_that_cannot_be_shown_faithfully_cannot_be_approved(command: str) -> None:
    *_, ask = command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)
    assert ask.always == ()
    assert ask.exact is False


@pytest.mark.parametrize("command", ["git status", "ls -la src | cat"])
def test_a_plain_line_is_allowed_by_patterns(command: str) -> None:
    *_, ask = command_asks(command, directory=PROJECT, start=PROJECT, home=HOME)
    assert bool(ask.always) is True
    assert ask.exact is False
