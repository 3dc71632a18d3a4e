"""The head of a markdown file: what people write there is read, and what is wrong is told with its line."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.markdown.front_matter import FrontMatter, parse_front_matter
from asyncagents.errors import ConfigError


def head(text: str) -> dict[str, Any]:
    matter = parse_front_matter(f"---\n{text}\n---\nbody")
    assert matter is not None
    return matter.data


def test_head_and_body_are_parted() -> None:
    assert parse_front_matter("---\r\na: 1\r\n---\r\n\r\nSay hello.\r\n---\r\nBye.\n") == FrontMatter(
        {"a": 1}, "Say hello.\n---\nBye."
    )
    assert parse_front_matter("---\n---") == FrontMatter({}, "")


def test_a_text_that_does_not_begin_with_dashes_has_no_head() -> None:
    assert parse_front_matter("# Title\n---\na: 1\n---\n") is None
    assert parse_front_matter("") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain text", "plain text"),
        ("Use it when: it rains", "Use it when: it rains"),
        ("12", 12),
        ("-3", -3),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("yes", "yes"),
        ("null", None),
        ("~", None),
        ("", None),
        ("# nothing", None),
        ("text # a comment", "text"),
        ("a#b", "a#b"),
        ('"a # \\"b\\" \\u00e9: c"  # d', 'a # "b" é: c'),
        ("'it''s: 1'", "it's: 1"),
        ('""', ""),
        ("[]", []),
        ('[a, 2, "b, c", true]', ["a", 2, "b, c", True]),
        ("{}", {}),
        ("{bash: ask, 'git *': deny}", {"bash": "ask", "git *": "deny"}),
        ("/path/to:thing", "/path/to:thing"),
    ],
)
def test_a_value_on_the_line_of_its_key_is_read_with_its_type(text: str, value: object) -> None:
    read = head(f"key: {text}".rstrip())["key"]
    assert read == value
    assert type(read) is type(value)


def test_maps_stand_in_maps_by_their_indentation() -> None:
    text = 'permission:\n  bash:\n    "*": ask\n    git *: allow\n\n  # no edits\n  edit: deny\nmode: all'
    assert head(text) == {
        "permission": {"bash": {"*": "ask", "git *": "allow"}, "edit": "deny"},
        "mode": "all",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("  a: 1", {"a": 1}),
        ("a: long\n  text", {"a": "long text"}),
        ("a: [[b], {c: [d]}]", {"a": [["b"], {"c": ["d"]}]}),
        ("a:\n  - b: c\n    d: e\n  - f", {"a": [{"b": "c", "d": "e"}, "f"]}),
        ("a: [b,\n  c]", {"a": ["b", "c"]}),
        ("{a: b}", {"a": "b"}),
        ("on: no\ntrue: 2026-01-31\n1: 0x10", {"on": "no", "true": "2026-01-31", "1": "0x10"}),
        (
            "a: Yes\nb: off\nc: 1_000\nd: 12:30\ne: .inf",
            {"a": "Yes", "b": "off", "c": "1_000", "d": "12:30", "e": ".inf"},
        ),
    ],
)
def test_nested_yaml_is_read_and_words_like_yes_or_dates_stay_text(text: str, value: object) -> None:
    assert head(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: b: c\nd: 'e: f'", {"a": "b: c", "d": "e: f"}),
        ("a: b: c\n  goes on: here\n\nd: 1", {"a": "b: c goes on: here", "d": 1}),
        ("a: b:", {"a": "b:"}),
        ("a: - b", {"a": "- b"}),
        ('a: say "b": \\n c', {"a": 'say "b": \\n c'}),
        ("a:\n  - b: c: d\n    e: f: g", {"a": [{"b": "c: d", "e": "f: g"}]}),
        ("a: b: c\nd: |\n  e: f: g\n\n  # h\ni: 1", {"a": "b: c", "d": "e: f: g\n\n# h\n", "i": 1}),
        ("a: # b: c\n  d: e: f", {"a": {"d": "e: f"}}),
        ("a: b: c # d", {"a": "b: c"}),
        ('"x: y": b: c', {"x: y": "b: c"}),
        ('a: "\\ud83d\\ude80 \\\\ud83d"', {"a": "\U0001f680 \\ud83d"}),
        ("a: b\x7f\u2028\u0085\x1bc: d", {"a": "b\x7f\u2028\u0085\x1bc: d"}),
    ],
)
def test_texts_that_yaml_refuses_are_quoted(text: str, value: object) -> None:
    assert head(text) == value


def test_lists_stand_under_their_key_indented_or_not() -> None:
    assert head('a:\n  - one\n  - "two: 2"\nb:\n- 3\nc: x') == {"a": ["one", "two: 2"], "b": [3], "c": "x"}


@pytest.mark.parametrize(
    ("mark", "value"),
    [
        ("|", "one\n  two\n\nthree # kept\n"),
        ("|-", "one\n  two\n\nthree # kept"),
        ("|+", "one\n  two\n\nthree # kept\n\n"),
        (">", "one\n  two\n\nthree # kept\n"),
    ],
)
def test_a_block_keeps_its_lines(mark: str, value: str) -> None:
    assert head(f"a: {mark}\n  one\n    two\n\n  three # kept\n\nb: 1") == {"a": value, "b": 1}


def test_a_folded_block_joins_its_lines() -> None:
    assert head("a: >-\n  one\n  two\n\n  three\n  four")["a"] == "one two\nthree four"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\nb", "line 3 has no colon"),
        ("a: 1\na: 2", 'line 3 has the key "a" a second time'),
        ("\n\ta: 1", "line 3 is indented with a tab"),
        ("a: 1\n  b: 2", "line 3 is indented too far"),
        ("a:\n    b: 1\n  c: 2", "line 4 is indented too far"),
        ("*: deny", "line 2 begins with *"),
        ("- a", "line 2 begins with -"),
        ("a: *b", "line 2 has a text that begins with *: quote it"),
        ("a: &b c", "line 2 has a text that begins with &"),
        ("a: !!python/object x", "line 2 has a text that begins with !"),
        ('a: "b', 'line 2 has a " that is not closed'),
        ('a: "b" c', "line 2 goes on after its value"),
        ('a: "\\q"', "line 2 has an invalid escape"),
        ('a: "\\ud800"', "line 2 has an invalid escape"),
        ("a: [b", "line 2 has a [ that is not closed"),
        ("a: {b", "line 2 has a {"),
        ("a: {b: c", "line 2 has a { that is not closed"),
        ("a:\n  - b\n  - *c", "line 4 has a text that begins with *"),
        ("a: |\n    deep\n  less", "line 4 is indented too far"),
        ("a: [", "line 2 has a [ that is not closed"),
        ("a:\n- b\nc: [\n", "line 4 has a [ that is not closed"),
        ("a: x\n\tb: 1", "line 3 is indented with a tab"),
        ("a: |\n\tb", "line 3 is indented with a tab"),
        ("a: *.ts", "line 2 has a text that begins with *: quote it"),
        ("a: @b", "line 2 has a text that begins with @: quote it"),
        ("a: ? b", "line 2 has a text that begins with ?: quote it"),
        ("a: b\n- c", "line 3 begins with -: quote it"),
        ("a:\n- b\n c: d", "line 4 is indented too far"),
        ("? [a]\n: b", "line 2 has a text that begins with [: quote it"),
        ("a: 1\n...\nb: 2", "line 4 begins a second document"),
        ("a: b: c\nd: [e", "line 3 has a [ that is not closed"),
        ("\n".join(" " * n + "a:" for n in range(9)), "is nested more than 6 deep"),
    ],
)
def test_an_invalid_head_is_refused_with_its_line(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        head(text)
    assert error in str(caught.value)


def test_the_python_yaml_loader_gives_the_results_of_the_c_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        "a: b: c",
        'a: "\\ud83d\\ude80"',
        "a: [",
        'a: "\\ud800"',
        "a: *b",
        "a:\n\tb: 1",
        'a: "b" c',
        "- a\nb: c",
    ]
    fast = [_read_or_refuse(text) for text in texts]
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert [_read_or_refuse(text) for text in texts] == fast


def _read_or_refuse(text: str) -> str:
    try:
        return str(head(text))
    except ConfigError as error:
        return str(error)


def test_a_head_that_never_ends_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 1: the head is not closed"):
        parse_front_matter("---\na: 1\n")
    with pytest.raises(ConfigError, match="longer than 2000 lines"):
        parse_front_matter("---\n" + "# x\n" * 2001 + "---\n")


@given(st.text(alphabet="ab:-#|>[]{}\"'\\ \n\t*,1.~", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert _read_or_refuse(text).startswith(("{", "line "))


# YAML has keys of up to 1024 characters, and JSON may write one as twelve.
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=80), st.text() | st.integers(-(10**17), 10**17) | st.booleans()
    )
)
def test_keys_and_values_quoted_as_json_round_trip(data: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in data.items()]
    assert head("\n".join(lines)) == data
