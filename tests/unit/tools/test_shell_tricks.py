"""Lines that mean something else than they seem to: by names, by their order, by what git takes for meant."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.agent.permission import UNCLEAR, decide
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.tools.file.files import Files
from asyncagents.tools.shell.guarded_places import guarded_asks
from asyncagents.tools.shell.rules import MOST_CHARACTERS, command_asks
from tests.support.hostile.yard import CANARY, Yard, plant_holes, run_calls, shell_calls
from tests.support.workspace.shell import asks_again, shell_asks

HOME = Path("/home/someone")
EVERYTHING = Rule(permission="*", pattern="*", action="allow")

# Another repository of this machine, by a name that git completes or only the shell knows.
REPOSITORIES = (
    "git push z HEAD:refs/heads/z",
    "git fetch z",
    "git pull z main",
    "git ls-remote z",
    "git clone z there",
    "git clone packed there",
    "git clone h:b there",
    "git push ba?e HEAD",
    "git push b[a]re HEAD",
    "git push bar* HEAD",
    "git push a=b HEAD",
    "git push -q a=b HEAD",
    "git remote show bare",
    "git remote show ./bare",
    "git remote prune z",
    "git clone --reference=bare https://example.org/x",
    "git clone --reference-if-able=bare https://example.org/x",
)
# A file that is written, or read, by a word that does not look like one.
WORDS = (
    "echo x | uniq - pwned",
    "uniq -- -in pwned",
    "uniq -c - pwned",
    "echo 41 | xxd -r -p - pwned",
    "xxd - pwned",
    'jq -n \'import #\n"secret" as $x {search: "../outside"}; $x\'',
    'jq -n \'import @text "secret" as $x {search: "../outside"}; $x\'',
    "yq 'load (\"../outside/x\")' a.txt",
    "curl -H@a.txt http://127.0.0.1:9/",
    "curl -sH@a.txt http://127.0.0.1:9/",
    "curl -w@a.txt http://127.0.0.1:9/",
    "curl --url-query name@a.txt http://127.0.0.1:9/",
    "tar cf host:x a.txt",
    "tar --file=host:x -c a.txt",
    "tar cf user@host:x a.txt",
    "zip --logfile-path pwned a.zip a.txt",
    "zip --test --unz='touch pwned' a.zip",
    "tree -R -H . -L 1",
    "less --lesskey-content='#env;LESSOPEN=|touch pwned' a.txt",
)
# A link of the project that leads out, by a name that depends on the locale, a number or many letters.
LINKS = (
    "cat ??",
    "LC_ALL=C; cat ??",
    "head -n 1 ?? a.txt",
    f"git commit --allow-empty -{'q' * 40}Fsecret-link",
    f"grep -{'n' * 40}fsecret-link a.txt",
    f"grep -{'n' * 400}fsecret-link a.txt",
    "git commit --allow-empty -F $?",
    "git commit --allow-empty -F $#",
    "git commit --allow-empty -F$#",
    'git tag -a v1 -F "$?"',
    "cd de* && cat er/link/secret.txt",
    "cd dee[p] && cat er/link/secret.txt",
    "cd ?eep/er && cat link/secret.txt",
    "tar xf a.tar && rev x",
    "dpkg-deb -x a.deb . && cat x",
)
# What stands first may run last.
ORDER = (
    "for i in 1 2; do cat er/link/secret.txt; cd deep; done",
    "for i in 1 2; do cat er/link/secret.txt; command cd deep; done",
    "cd deep/er; for i in 1 2 3 4; do cat outside/secret.txt; cd ..; done",
    "while cd ..; do cat outside/secret.txt; done",
    "until cat outside/secret.txt; do cd ..; done",
    "for i in 1 2; do if true; then cat outside/secret.txt; fi; (cd .. && ls); done",
    "for i in 1 2; do cat l/secret.txt; git apply l.patch; done",
    "while true; do head l/x; mv deep/er/s .; done",
    "{ sleep 1; cat l/secret.txt 1>&2; } | git apply l.patch",
    "(sleep 1; cat l/secret.txt 1>&2) | git apply l.patch",
    "cat a.txt l/secret.txt 1>&2 | git apply l.patch",
    "tail -F l/secret.txt 1>&2 | git apply l.patch",
)
# They run another program.
RUNNING = (
    "compgen -C 'touch pwned' x",
    "compgen -W '$(touch pwned)'",
    "fc -e 'touch pwned'",
    "rbash -c 'touch pwned'",
    "bash5 -c 'touch pwned'",
    "bash-static -c 'touch pwned'",
    "ksh93 -c 'touch pwned'",
    "vim.basic -es -c '!touch pwned' -c q",
    "vimdiff -es -c '!touch pwned' a.txt b.txt",
    "ld.so ./evil",
    "systemd-cat touch pwned",
    "sshpass -p x touch pwned",
)
# Those held already.
HELD = (
    "CI='x[$(touch pwned)]'; echo \"$[CI]\"",
    "CI='x[$(touch pwned)]'; cat <<E\n$[CI]\nE",
    "tar cf '-oProxyCommand=touch pwned:x' a.txt",
    "find . -newermt x -fprint0 y",
    "sed -e p -e 'w pwned' a.txt",
    "sed -n -- 'w pwned' a.txt",
    "awk -v x=1 -f evil",
    "git --exec-path=. --no-pager log",
    "git submodule --quiet foreach 'touch pwned'",
    "test a -a -v 'x[$(touch pwned)]'",
    "cat ~+/a.txt",
    "dd if=~root/x",
)
HOLES = (*REPOSITORIES, *WORDS, *LINKS, *ORDER, *RUNNING, *HELD)
# Each is by another name, or behind something, what a rule denies.
DENIED = (
    ("git --no-pager push --force", "git push *"),
    ("git --no-optional-locks push", "git push *"),
    ("git --no-pager --no-optional-locks push origin", "git push *"),
    ("{tools}/deployer now", "deployer *"),
    ("{tools}/../tools/deployer now", "deployer *"),
    ("timeout 5 {tools}/deployer now", "deployer *"),
    ("rbash -c 'rm x'", "rm *"),
    ("ld.so /bin/rm x", "rm *"),
    ("/lib64/ld-linux-x86-64.so.2 /bin/rm x", "rm *"),
    ("zsh-5.9 -c 'rm x'", "rm *"),
    ("systemd-cat rm x", "rm *"),
)
GUARDED = (
    "echo x | uniq - .git/config",
    "echo 41 | xxd -r -p - .git/config",
    "uniq -- a.txt .git/hooks/pre-commit",
    "cat a.txt | uniq -u - asyncagents.json",
)
"""They look like readers, and write a guarded place."""
ALWAYS = (
    ("cat README.md", "cat < .env"),
    ("tr a b", "tr a b < .env"),
    ("wc -l a", "wc -l <conf/prod.env"),
    ("cat a", "cat conf/p*"),
    ("cat a", "cat s*"),
    ("cat a", "cat id_e*"),
    ("cat a", "cat *.p12"),
    ("cat a", "cat .pg*"),
    ("cat a", "cat other-name"),
    ("cat a", "cat .ssh/config"),
    ("uniq a", "uniq - Makefile"),
    ("pytest tests", "pytest @test_args"),
    ("mypy src", "mypy @flags"),
    ("ruff check src", "ruff check @flags"),
    ("npm test", "cd [s]ub && npm test"),
    ("gh pr list", "gh pr list --json a --jq env.X"),
    ("uv run pytest", "uv run uv run pytest"),
)
EVERYDAY = (
    "git push origin main",
    "git push -u origin topic",
    "git clone git@example.org:a/b.git",
    "git remote show origin",
    "git --no-pager log -3",
    "sort a.txt | uniq -c",
    "uniq -c a.txt",
    "xxd a.txt | head",
    "cd src && ls",
    "for i in 1 2 3; do make test; done",
    "for i in 1 2; do cat a.txt; sleep 1; done",
    "cat a.txt b.txt | wc -l",
    "cat l.patch | git apply",
    "curl -L https://example.org/a.tgz | tar xz",
    "curl -H 'Accept: a@b' https://example.org",
    "jq '.include, .import' package.json",
    "tar czf out.tgz src",
    "cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -B build",
    "id $USER",
    "make test; echo $?",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    yard = plant_holes(tmp_path_factory.mktemp("tricks"))
    for name in ("z.git", "a=b", "h:b"):
        (yard.root / name).mkdir()
    (yard.root / "packed.bundle").write_text("")
    (yard.root / "deep/er/link").symlink_to(yard.outside)
    for name in ("0", "é"):
        (yard.root / name).symlink_to(yard.secret)
    return yard


def judge(place: Yard, command: str) -> tuple[Ask, ...]:
    return command_asks(command, directory=place.root, start=place.root, home=HOME)


@pytest.mark.spec("A-03", "A-04")
@pytest.mark.parametrize("command", HOLES)
def test_a_line_that_only_looks_plain_asks(command: str, place: Yard) -> None:
    assert any(ask.also or ask.permission == "external_directory" for ask in judge(place, command))


@pytest.mark.spec("A-03", "A-04")
@pytest.mark.parametrize(("command", "denied"), DENIED)
def test_no_option_path_or_wrapper_lifts_a_denial(
    command: str, denied: str, place: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = place.outside / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "deployer").write_text("#!/bin/sh\n")
    (tools / "deployer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    rules = (EVERYTHING, Rule(permission="bash", pattern=denied, action="deny"))
    found = judge(place, command.format(tools=tools))
    assert "deny" in {decide(rules, ask.permission, ask.patterns) for ask in found}, found[-1].patterns


@pytest.mark.parametrize("command", GUARDED)
def test_a_reading_command_that_writes_a_guarded_place_asks(command: str, place: Yard) -> None:
    found = guarded_asks(command, Files(place.root), start=place.root, home=HOME)
    assert [ask.permission for ask in found] == ["guarded_place"]


@pytest.mark.parametrize("command", EVERYDAY)
def test_an_everyday_line_needs_no_extra_ask(command: str, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "l.patch", "package.json", "src/one.py", "build/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = command_asks(command, directory=tmp_path, start=tmp_path, home=HOME)
    assert [(ask.permission, ask.also) for ask in found] == [("bash", ())], found[-1].metadata


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(("shown", "later"), ALWAYS)
def test_an_approval_covers_no_secret_by_another_name(shown: str, later: str, tmp_path: Path) -> None:
    for name in (".env", "conf/prod.env", "secrets.yml", "id_ed25519", "x.p12", ".pgpass", "sub/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "other-name").symlink_to(".env")
    (tmp_path / "[s]ub").symlink_to(".")
    assert asks_again(shell_asks(shown, project=tmp_path), shell_asks(later, project=tmp_path))


@pytest.mark.spec("Z-06")
def test_an_approval_does_not_count_in_a_folder_of_secrets(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    there = shell_asks("cat config", project=tmp_path, start=tmp_path / ".git")
    assert asks_again(shell_asks("cat a", project=tmp_path), there)


@pytest.mark.parametrize("piece", ["a|", "$[", "a=(", "|&", "((a", ">", "2>", "<<E\n", "${"])
async def test_a_line_that_would_take_long_to_parse_is_unclear(piece: str, tmp_path: Path) -> None:
    """The parser would need many seconds, in which no other thread runs."""
    line = (piece * MOST_CHARACTERS)[:MOST_CHARACTERS]
    *_, ask = await asyncio.to_thread(command_asks, line, directory=tmp_path, start=tmp_path, home=HOME)
    assert ask.also == (UNCLEAR,)


def test_a_line_of_thousands_of_nested_runners_gives_asks(tmp_path: Path) -> None:
    line = "uv run " * 2_800 + "pytest"
    assert command_asks(line, directory=tmp_path, start=tmp_path, home=HOME)


def test_the_list_of_tricks_is_long_enough_and_without_duplicates() -> None:
    assert len(set(HOLES)) == len(HOLES) >= 50


@pytest.mark.spec("A-04", "A-05")
async def test_no_trick_runs_unasked_with_the_real_rules_and_tools(tmp_path: Path) -> None:
    yard = plant_holes(tmp_path)
    (yard.root / "z.git").mkdir()
    (yard.root / "deep/er/link").symlink_to(yard.outside)
    lines = (
        *GUARDED,
        "git push z HEAD",
        "cd de* && cat er/link/secret.txt",
        "cd deep/er; for i in 1 2 3 4; do cat outside/secret.txt; cd ..; done",
        "compgen -C 'touch pwned' x",
    )
    before = yard.picture()
    found = await run_calls(tmp_path, yard, shell_calls(lines), permission={"bash": "allow"})
    assert [lines[number] for number in found.unasked] == []
    assert yard.picture() == before
    assert CANARY not in found.text
