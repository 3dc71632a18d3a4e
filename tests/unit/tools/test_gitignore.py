"""Rules of a project that was made to hurt take no longer than others."""

from pathlib import Path

from asyncagents.tools.file.files import Files
from asyncagents.tools.search import gitignore
from asyncagents.tools.search.fuzzy import MOST_SCATTERED, best_matches
from asyncagents.tools.search.gitignore import MOST_CHARACTERS, MOST_LINES, is_ignored, parse_rules
from asyncagents.tools.search.walk import walk


def test_each_rule_is_compiled_once_up_to_a_limit() -> None:
    many = parse_rules(f"*q{number}*" for number in range(2 * MOST_LINES))
    gitignore._compile_glob.cache_clear()
    for name in ("a", "b", "c"):
        assert not is_ignored((name,), many, folder=False)
    assert gitignore._compile_glob.cache_info().misses == MOST_LINES


def test_the_characters_of_rules_in_a_file_are_limited() -> None:
    line = "*a" * 400
    assert len(parse_rules([line] * MOST_LINES)) == MOST_CHARACTERS // len(line)
    assert len(parse_rules(["*.py"] * 10)) == 10


def test_a_walk_can_be_stopped_within_a_folder(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.txt").touch()
    asked: list[None] = []

    def stopped() -> bool:
        asked.append(None)
        return len(asked) > 4

    files = Files(tmp_path)
    walked = walk(files, files.resolve("."), lambda parts: True, stopped=stopped)
    assert sorted(each.parts for each in walked.files) == [(f"{number}.txt",) for number in range(3)]
    assert walked.cut


def test_a_long_query_must_match_without_gaps() -> None:
    path = "ab" * MOST_SCATTERED
    assert best_matches("a" * MOST_SCATTERED, [path], 1) == [path]
    assert best_matches("a" * (MOST_SCATTERED + 1), [path * 2], 1) == []
    assert best_matches(path, [path], 1) == [path]
