"""What "always" covers with the real tools and the real rules: what was shown, and nothing more dangerous."""

from pathlib import Path

import pytest

from asyncagents.llm.scripted import call
from tests.support.hostile.yard import asks_after_always, create_yard, shell_calls

ATTACKED = [
    ("python3.11 -m unittest", 'python3.11 -c \'open("pwned","w")\''),
    ("uv run pytest", 'uv run python -c \'open("pwned","w")\''),
    ("poetry run pytest", "poetry run sh -c 'touch pwned'"),
    ("docker run alpine ls", "docker run -v /:/h alpine rm /h/x"),
    ("nodejs build.js", "nodejs -e '1'"),
    ("sqlite3 a.db .tables", "sqlite3 a.db '.shell touch pwned'"),
    ("vim --version", "vim -es -c '!touch pwned' -c q"),
    ("ruby3.1 a.rb", "ruby3.1 -e 1"),
    ("npx prettier .", "npx evil"),
    ("git diff HEAD", "git diff --no-index /etc/passwd x"),
    ("tox", "tox -c evil.ini"),
    ("just test", "just evil"),
    ("rye run test", "rye run sh -c x"),
    ("pytest tests", "pytest -p evil --rootdir=/"),
    ("gcc a.c", "gcc -wrapper touch,pwned a.c"),
    ("ssh-keygen -l -f k", "ssh-keygen -D ./evil.so"),
    ("npm run test", "npm run evil"),
    ("make test", "make evil"),
    ("go run a.go", "go run evil.go"),
    ("cargo run", "cargo run --manifest-path /x/Cargo.toml"),
    ("bundle exec rspec", "bundle exec sh -c x"),
]


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(("shown", "later"), ATTACKED, ids=[later for _, later in ATTACKED])
async def test_an_approved_line_lets_no_other_program_run(shown: str, later: str, tmp_path: Path) -> None:
    place = create_yard(tmp_path)
    assert await asks_after_always(
        tmp_path, place, shell_calls([shown]), shell_calls([later]), permission={"bash": "ask"}
    )


@pytest.mark.spec("Z-06")
async def test_an_approval_of_a_missing_path_outside_covers_no_folder(tmp_path: Path) -> None:
    """An answer for `ls /nonexistent` once allowed `/*`."""
    place = create_yard(tmp_path)
    then = [*shell_calls(["head -1 /etc/passwd"]), call("read", filePath="/etc/hosts")]
    asked = await asks_after_always(tmp_path, place, shell_calls(["ls /nonexistent"]), then)
    assert [ask.permission for ask in asked] == ["external_directory"] * 2


@pytest.mark.spec("Z-06")
async def test_an_approval_to_read_outside_the_project_does_not_cover_changes(tmp_path: Path) -> None:
    place = create_yard(tmp_path)
    first = [call("read", filePath=str(place.secret))]
    then = [
        call("write", filePath=str(place.secret), content="x"),
        *shell_calls([f"rm {place.secret}", f"cp a.txt {place.secret}"]),
    ]
    asked = await asks_after_always(tmp_path, place, first, then)
    assert [ask.permission for ask in asked] == ["external_directory"] * 3
