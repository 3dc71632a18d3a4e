"""Names by some of their letters."""

from asyncagents.tools.search.fuzzy import best_matches

PATHS = ["src/server/file.py", "src/server/profile.py", "docs/file.md", "docs/", "file/readme.txt", "LICENSE"]


def test_a_whole_name_goes_before_its_beginning_and_that_before_its_middle() -> None:
    assert best_matches("file", PATHS, 10) == [
        "docs/file.md",
        "src/server/file.py",
        "src/server/profile.py",
        "file/readme.txt",
    ]


def test_a_match_ignores_case_and_gaps_between_letters() -> None:
    assert best_matches("license", PATHS, 10) == ["LICENSE"]
    assert best_matches("ssfpy", PATHS, 10) == ["src/server/file.py", "src/server/profile.py"]
    assert best_matches("zz", PATHS, 10) == []


def test_an_empty_query_yields_the_first_paths_up_to_the_limit() -> None:
    assert best_matches(" ", PATHS, 2) == PATHS[:2]
    assert best_matches("e", PATHS, 1) == best_matches("e", PATHS, 10)[:1]
