"""What an answer "always" to one shell line means for a later one."""

import os
from pathlib import Path

import pytest

from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.project import judge_ask
from asyncagents.tools.file.external_directory import may_be_approved
from tests.support.workspace.shell import EVERYTHING_ASKS, asks_again, shell_asks

MORE_DANGEROUS = [
    # interpreters
    ("python3 -m unittest", "python3 -m http.server"),
    ("python3 -m unittest", "python3.12 -m unittest"),
    ("python3 -m unittest tests.test_a", "python3 -m unittest evil"),
    ("python3 -m pytest -q", "python3 -m pytest -p evil"),
    ("python -m pytest tests", "python -m pytest evil.py"),
    ("python3 build.py", "python3 other.py"),
    ("python3 build.py", "python3 build.py --publish"),
    ("python3 - <<'EOF'\nprint(1)\nEOF", "python3 - <<'EOF'\nimport os; os.remove('a')\nEOF"),
    ("echo 1 | python3 -", "cat evil.py | python3 -"),
    ("cat a.py | python3", "cat b.py | python3"),
    ("node build.js", "node -e 1"),
    ("perl -v", "perl -e 1"),
    ("php artisan test", "php artisan migrate"),
    ("./run.sh", "./run.sh --force"),
    ("./run.sh", "./other.sh"),
    # programs that run others
    ("uv run pytest", "uv run --with evil pytest"),
    ("uv run pytest tests", "uv run pytest -p evil"),
    ("uv run ruff check .", "uv run ruff check --fix ."),
    ("npx eslint src", "npx eslint --rulesdir evil src"),
    ("npm test", "npm publish"),
    ("npm test", "npm test --prefix ../other"),
    ("npm ci", "npm install evil"),
    ("make test", "make -f evil.mk test"),
    ("make test", "make deploy"),
    ("make test && make deploy", "make deploy"),
    ("test -f ok && make deploy", "make deploy"),
    ("docker ps", "docker run alpine"),
    ("docker ps -a", "docker -H tcp://evil ps"),
    ("docker exec web ls", "docker exec web rm x"),
    ("cargo test", "cargo test --manifest-path vendored/Cargo.toml"),
    ("cargo test", "cargo test; cargo test --config evil.toml"),
    ("cargo test", "cargo test --config evil.toml; cargo test"),
    ("cargo check", "cargo install evil"),
    ("cargo clippy", "cargo clippy --fix"),
    ("go test ./...", "go test -exec evil ./..."),
    ("go test ./...", "go test -toolexec=evil ./..."),
    ("go build ./cmd", "go build -o /project/.git/hooks/x ./cmd"),
    # a folder of its own
    ("cargo test", "cd vendored && cargo test"),
    ("pytest tests", "cd node_modules/evil && pytest tests"),
    ("pytest tests", "pytest node_modules/evil/tests"),
    ("make test", "cd sub && make test"),
    ("git status", "cd sub && git status"),
    # what writes, for what reads
    ("ruff format --check src", "ruff format src"),
    ("ruff check src", "ruff check --fix src"),
    ("ruff check src", "ruff check --select --fix src"),
    ("git branch", "git branch -D main"),
    ("git commit -m a", "git commit --amend -m a"),
    ("git commit -m a", "git commit -m a --no-verify"),
    ("git commit -m a", "git commit -F notes"),
    ("git add src", "git add -f .env"),
    ("git log", "git log --output=x"),
    ("git stash list", "git stash drop"),
    ("git push origin topic", "git push --force origin main"),
    ("git push origin topic", "git push origin topic --force"),
    ("git checkout topic", "git checkout -- src"),
    ("git fetch", "git fetch --upload-pack=evil"),
    ("rm a.txt", "rm -rf src"),
    ("cp a b", "cp a .git/hooks/post-commit"),
    ("mv a b", "mv src b"),
    ("touch a", "touch .git/hooks/x"),
    ("chmod +x a", "chmod -R 777 src"),
    ("tee log", "tee Makefile"),
    ("sed -n 1p a", "sed -i 1d a"),
    ("find . -name '*.py'", "find . -name '*.py' -delete"),
    ("sort a", "sort -o b a"),
    ("file a", "file -C -m a"),
    ("tree src", "tree -R -H . -L 1 src"),
    # what is secret, for what is not
    ("cat README.md", "cat .env"),
    ("cat README.md", "cat conf/prod.env.local"),
    ("head -1 a", "head -1 .e*"),
    ("cat a", "cat .*"),
    ("tail a", "tail deploy/server.key"),
    ("cat a", "cat .git/config"),
    ("git show HEAD", "git show HEAD:.env"),
    ("jq .name a.json", "jq -n env"),
    ("jq .name a.json", "jq -n '$ENV'"),
    ("kubectl get pods", "kubectl get secrets"),
    ("kubectl get pods", "kubectl get pods,secrets"),
    ("kubectl get pods", "kubectl get pods --kubeconfig other"),
    ("kubectl get pods", "kubectl delete pods a"),
    ("gh pr view 1", "gh pr merge 1"),
    ("gh pr view 1", "gh pr view 1 --repo other/secret"),
    ("gh issue list", "gh api graphql"),
    ("systemctl status web", "systemctl stop web"),
    ("systemctl status web", "systemctl status -H evil web"),
    ("pip list", "pip install evil"),
    ("curl https://a.example/x", "curl https://b.example/x"),
    ("ls", "ls; rm a"),
    ("echo $(date)", "echo $(date; rm a)"),
    ("timeout 5 ls", "timeout 5 rm a"),
    ("timeout 5 make test", "timeout 5 make evil"),
]  # fmt: skip

AS_HARMLESS = [
    ("npm test", "npm test"),
    ("npm test 2>&1 | tail -20", "npm test 2>&1 | tail -40"),
    ("npm test | tail -20", "npm test"),
    ("./run.sh --all", "./run.sh --all"),
    ("python3.11 -c 'print(1)'", "python3.11 -c 'print(1)'"),
    ("echo $(date)", "echo $(date)"),
    ("cd /project && npm test | tail -5", "cd /project && npm test | tail -9"),
    ("timeout 60 make test", "timeout 90 make test"),
    ("ls", "ls -la src"),
    ("ls src | head -5", "ls tests | head -3"),
    ("cat a.py", "cat -n src/b.py"),
    ("cat a | wc -l", "wc -l src/b.py"),
    ("cat .env.example", "cat README.md"),
    ("grep -rn foo src", "grep -rn 'def .*bar$' tests --include=*.py"),
    ("find . -name '*.py'", "find src -type f -name '*.ts'"),
    ("sed -n 1,5p a", "sed -n 10,20p b"),
    ("awk '{print $1}' a", "awk '{print $NF}' b"),
    ("jq .name a.json", "jq '.items[] | .id' b.json"),
    ("cd src && ls", "cd tests && ls -l"),
    ("git status", "git status --short"),
    ("git log --oneline -5", "git log --stat -n 3 src"),
    ("git diff HEAD", "git diff main..topic -- src/a.py"),
    ("git show HEAD", "git show --stat HEAD~2"),
    ("git add src/a.py", "git add -A"),
    ("git commit -m 'First'", "git commit -am 'Second; with a rest'"),
    ("git branch --show-current", "git branch -a"),
    ("pytest tests", "pytest -xq tests/unit/test_a.py::test_b -k 'not slow'"),
    ("pytest -q", "pytest tests/unit --tb=short --maxfail 1"),
    ("python3.11 -m unittest", "python3.11 -m unittest -v tests.test_a"),
    ("python3 -m pytest -q", "python3 -m pytest tests -x"),
    ("uv run pytest", "uv run pytest -q tests/test_a.py"),
    ("poetry run pytest", "poetry run pytest -k fast"),
    ("uv run ruff check .", "uv run ruff check src --select E"),
    ("ruff format src", "ruff format -q tests/a.py"),
    ("mypy src", "mypy --strict src/a.py"),
    ("cargo test", "cargo test -p core parse -- --nocapture"),
    ("cargo clippy", "cargo clippy --all-targets"),
    ("go test ./...", "go test -run TestA -count=1 ./pkg/a"),
    ("ruff check . && pytest tests", "pytest tests -q"),
    ("docker ps", "docker ps -a --format json"),
    ("kubectl get pods", "kubectl get pods -n web -o wide"),
    ("gh pr view 1", "gh pr view 2 --json title"),
    ("systemctl status web", "systemctl status db --no-pager"),
    ("timeout 5 ls", "timeout 9 ls src"),
]


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(("shown", "later"), MORE_DANGEROUS)
def test_a_more_dangerous_line_than_the_approved_one_asks(shown: str, later: str) -> None:
    assert asks_again(shell_asks(shown), shell_asks(later)), shell_asks(shown)[-1].always


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(("shown", "later"), AS_HARMLESS)
def test_a_line_as_harmless_as_the_approved_one_does_not_ask(shown: str, later: str) -> None:
    assert not asks_again(shell_asks(shown), shell_asks(later)), shell_asks(later)[-1].always


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize("shown", [line for pair in MORE_DANGEROUS + AS_HARMLESS for line in pair])
def test_the_same_line_does_not_ask_again(shown: str) -> None:
    assert not asks_again(shell_asks(shown), shell_asks(shown))


@pytest.mark.spec("Z-06")
def test_approvals_of_an_older_version_that_are_too_wide_do_not_count() -> None:
    wide = [
        Rule(permission="bash", pattern=pattern, action="allow")
        for pattern in ("python3.11 *", "tox *", "npm run *", "make *", "*")
    ]
    for line in ("python3.11 -c 1", "tox -c evil.ini", "npm run evil", "make evil", "cat .env"):
        assert [judge_ask(ask, EVERYTHING_ASKS, wide) for ask in shell_asks(line)] == ["ask"], line


@pytest.mark.spec("Z-06")
def test_a_line_is_approved_for_the_folder_that_it_starts_in(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    there = shell_asks("./run.sh", project=tmp_path, start=tmp_path / "a")
    assert there[-1].always == ("cd a || exit\n./run.sh",)
    assert there[-1].exact is True
    assert there[-1].metadata["workdir"] == os.path.realpath(tmp_path / "a")
    assert not asks_again(there, shell_asks("./run.sh", project=tmp_path, start=tmp_path / "a"))
    assert asks_again(there, shell_asks("./run.sh", project=tmp_path, start=tmp_path / "b"))
    assert asks_again(there, shell_asks("./run.sh", project=tmp_path))
    assert asks_again(shell_asks("./run.sh", project=tmp_path), there)


def outside(command: str, project: Path) -> list[Ask]:
    return [ask for ask in shell_asks(command, project=project) if ask.permission == "external_directory"]


@pytest.mark.spec("Z-06")
def test_an_approval_of_a_folder_outside_covers_reading_below_it_alone(tmp_path: Path) -> None:
    project, data = tmp_path / "project", tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    project.mkdir()
    (data / "a.txt").write_text("")
    (shown,) = outside(f"ls {data}", project)
    assert shown.always == (f"{data}/*",)
    assert shown.exact is False
    for later in (f"cat {data}/a.txt", f"ls {data}/deep", f"grep x {data}/a.txt {data}/b.txt"):
        assert not asks_again([shown], outside(later, project)), later
    for later in (f"rm {data}/a.txt", f"cp a {data}/b", f"echo x > {data}/a.txt", f"ls {data}2", "ls /etc"):
        assert asks_again([shown], outside(later, project)), later


@pytest.mark.spec("Z-06")
def test_a_file_outside_is_approved_alone(tmp_path: Path) -> None:
    project, data = tmp_path / "project", tmp_path / "data"
    for folder in (project, data):
        folder.mkdir()
    (data / "a.txt").write_text("")
    (shown,) = outside(f"cat {data}/a.txt", project)
    assert shown.always == (f"{data}/a.txt",)
    assert shown.exact is True
    assert not asks_again([shown], outside(f"wc -l {data}/a.txt", project))
    for later in (f"cat {data}/b.txt", f"ls {data}", f"rm {data}/a.txt", f"cat {data}/a.txt {data}/b.txt"):
        assert asks_again([shown], outside(later, project)), later


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    ("shown", "later"),
    [
        ("ls /nonexistent", "cat /etc/passwd"),
        ("ls /nonexistent", "ls /"),
        ("ls /", "ls /etc"),
        ("ls /", "grep -r x /"),
        ("ls /etc", "grep -r root /etc"),
        ("ls /etc", "cat /etc/hosts"),
        ("cat $USER", "cat $?"),
        ("cat /etc/host?", "cat /etc/passwd"),
        ("rm /nonexistent/a", "rm /nonexistent/b"),
    ],
)
def test_a_root_or_a_folder_of_the_system_is_never_approved_as_a_whole(shown: str, later: str) -> None:
    first = [ask for ask in shell_asks(shown) if ask.permission == "external_directory"]
    assert first
    assert asks_again(
        shell_asks(shown), [ask for ask in shell_asks(later) if ask.permission == "external_directory"]
    )


@pytest.mark.parametrize(
    ("folder", "can"),
    [
        ("/", False), ("/tmp", False), ("/home", False), ("/home/someone", False), ("/home/other", False),
        ("/Users/ada", False), ("/root/x", False), ("/etc/ssl", False), ("/proc/self", False),
        ("/home/someone/.ssh", False), ("/srv/.secret/x", False), ("/srv/a*", False), ("/srv/a\\b", False),
        ("/srv/a\u202eb", False), ("/srv/data", True), ("/home/someone/other", True), ("/usr/include", True),
    ],
)  # fmt: skip
def test_only_ordinary_folders_can_be_approved(folder: str, can: bool) -> None:
    assert may_be_approved(folder, "/home/someone") is can


def test_the_home_of_the_user_cannot_be_approved_wherever_it_is() -> None:
    assert not may_be_approved("/srv/people/ada", "/srv/people/ada")
    assert not may_be_approved("/srv/people", "/srv/people/ada")
    assert may_be_approved("/srv/people/ada/code", "/srv/people/ada")
