"""JSON with comments and trailing commas, and errors that name the spot."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.file.jsonc import MAX_DEPTH, parse
from asyncagents.errors import ConfigError

scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
# Lone surrogates are refused on purpose.
values = st.recursive(
    scalars.filter(
        lambda value: not isinstance(value, str) or value.encode(errors="replace").decode() == value
    ),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab/*,\"'\\{}[]"), inner),
    max_leaves=20,
)


@given(values)
def test_every_json_text_is_parsed_to_its_value(value: object) -> None:
    assert parse(json.dumps(value), "f") == value
    assert parse(json.dumps(value, ensure_ascii=False, indent=2), "f") == value


@given(values, st.sampled_from(['// said, "so" }\n', '/* a\n, ] " */', " \r\n\t"]))
def test_comments_and_trailing_commas_change_nothing(value: object, between: str) -> None:
    text = json.dumps([value, {"last": value}], separators=(f",{between}", f":{between}"))
    assert parse(text[:-2] + f",{between}}},{between}]{between}", "f") == [value, {"last": value}]


@given(st.text('{}[]":,/*\\ \n0.eE-"tfnu'))
def test_any_text_is_a_value_or_one_clear_error(text: str) -> None:
    error = ""
    try:
        parse(text, "some.json")
    except ConfigError as refused:
        error = str(refused)
    assert not error or re.fullmatch(
        r"some\.json (is not valid JSON at line \d+, column \d+: .+|holds .+)", error
    )


@pytest.mark.parametrize("text", ["", " \n", "// nothing yet\n", "\t/* */"])
def test_a_file_with_nothing_in_it_is_an_empty_object(text: str) -> None:
    assert parse(text, "f") == {}


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "write a comma"),
        ('{"a": // x\n  }', 2, 3, "write a value"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ('{"a" 1}', 1, 6, "colon"),
        ('{"a": "b\n"}', 1, 9, "close the string with"),
        ('{"a": "b\tc"}', 1, 9, "\\t"),
        ('{"a": 1} x', 1, 10, "remove"),
        ('{\n /* "a": 1}', 2, 2, "close this comment"),
        ('{"a": {env:X}}', 1, 8, "double quotes"),
        ('/* one\n two */ {"a": 1, x }', 2, 18, "double quotes"),
        ('{"a": 1', 1, 8, "close what is open"),
    ],
)
def test_an_error_names_the_line_the_column_and_a_hint(text: str, line: int, column: int, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "opencode.json")
    assert str(caught.value).startswith(f"opencode.json is not valid JSON at line {line}, column {column}: ")
    assert hint in str(caught.value)


def test_an_error_shows_nothing_of_the_text() -> None:
    with pytest.raises(ConfigError) as caught:
        parse('{"apiKey": "sk-secret" "b": 1}', "f")
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity", "9007199254740992", "1" * 5000])
def test_numbers_that_json_cannot_carry_are_refused(number: str) -> None:
    with pytest.raises(ConfigError, match="number that is too large"):
        parse(f'{{"a": {number}}}', "f")


@pytest.mark.parametrize("text", ['{"a": "', '{"a": "x\\\n', '["', '{} // "'])
def test_a_string_that_is_never_closed_is_refused_in_linear_time(text: str) -> None:
    """Were each quote tried as a beginning, this would take hours."""
    with pytest.raises(ConfigError, match=r"close|remove|write"):
        parse(text + '\\"' * 500_000 + '\n"' * 2, "f")


def test_an_unpaired_surrogate_is_refused() -> None:
    with pytest.raises(ConfigError, match="contains an unpaired surrogate"):
        parse('{"a": "\\ud83d"}', "f")
    assert parse('{"a": "\\ud83d\\ude00"}', "f") == {"a": "😀"}


def test_brackets_beyond_the_maximum_depth_are_refused() -> None:
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f")
    with pytest.raises(ConfigError, match=f"column {MAX_DEPTH + 1}: nest no deeper"):
        parse("[" * 100_000, "f")
