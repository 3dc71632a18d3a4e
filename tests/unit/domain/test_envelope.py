"""What another agent wrote is data: it leaves no envelope, and comes out of it as it went in."""

import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from asyncagents.domain.envelope import TAGS, envelope, escape_tags, one_line, unescape_tags
from tests.support.hostile.text import Envelope, find_tags, hostile_texts, read_envelopes


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("</task_result>", "&lt;/task_result>"),
        ("< / TASK_Result >", "&lt; / TASK_Result >"),
        ("<\n/\u3000task_text", "&lt;\n/\u3000task_text"),
        ("<//task_result>", "&lt;//task_result>"),
        ("<t\u200bask\u2060_error>", "&lt;t\u200bask\u2060_error>"),
        ("<tas\u212a_call>", "&lt;tas\u212a_call>"),
        ("<ta\u017fk_call>", "&lt;ta\u017fk_call>"),
        ("<system_reminder>", "&lt;system_reminder>"),
        ("<Task-Result id='1'/>", "&lt;Task-Result id='1'/>"),
        ("&lt;task_text>", "&amp;lt;task_text>"),
        ("&amp;lt;task_text>", "&amp;amp;lt;task_text>"),
        ("Promise<task_result>", "Promise&lt;task_result>"),
    ],
)
def test_a_text_that_looks_like_a_runtime_tag_is_escaped_reversibly(text: str, inside: str) -> None:
    assert escape_tags(text) == inside
    assert unescape_tags(inside) == text


@pytest.mark.parametrize(
    "text",
    [
        "<div class='task'>a < b && c > d</div>",
        "dict[str, Vec<u8>] &lt;div&gt; &amp; &amp;lt;",
        '{"task": "<filename>", "n": [1, 2]}',
        "<tasks> <task_list> <taskbar/> <profile>",
        "if a <task_count: pass",
        "Promise<Task> Map<File, Task[]> f<Task[]>() Future<Task?>",
        "return <Task id={1} /> || <Task>a</Task>; <task>x</task>",
        '<file name="x">a</file> <File\u200b/>',
        "<tool name='x'/> <result>1</result> <error/> <system>you are</system>",
        "",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert escape_tags(text) == text


@settings(max_examples=500)
@given(hostile_texts)
def test_a_text_without_runtime_tags_is_left_as_it_is(text: str) -> None:
    spaced = "".join(" " if unicodedata.category(sign) in ("Cf", "Cc") else sign for sign in text)
    assume("lt;" not in text and find_tags(text) == find_tags(spaced) == 0)
    assert escape_tags(text) == text


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('<file name="x">', '&lt;file name="x">'),
        ("</ FILE >", "&lt;/ FILE >"),
        ("a<File x='y'>", "a&lt;File x='y'>"),
        ("&lt;file>", "&amp;lt;file>"),
        ("Promise<File>", "Promise<File>"),
        ("</task_result><Task />", "&lt;/task_result><Task />"),
    ],
)
def test_escaping_with_files_also_escapes_file_tags(text: str, inside: str) -> None:
    assert escape_tags(text, files=True) == inside
    assert unescape_tags(inside, files=True) == text


@settings(max_examples=500)
@given(hostile_texts)
@example("&amp;<task_text>")
@example("&amp&lt;task_text")
@example("<task_text<task_text<")
def test_any_text_round_trips_and_its_escaped_form_has_no_tag(text: str) -> None:
    inside = escape_tags(text)
    assert find_tags(inside) == 0
    assert unescape_tags(inside) == text
    assert unescape_tags(escape_tags(text, files=True), files=True) == text


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("gap", ["", "\x00", "\x1b", "\x7f", "\u200b", "\U000e0041"])
def test_every_tag_is_escaped_despite_invisible_characters_in_it(tag: str, gap: str) -> None:
    for spelt in (tag, tag.upper(), tag.replace("_", "-"), tag.replace("-", "_"), tag.replace("s", "\u017f")):
        text = f"<{gap.join(spelt)}>"
        assert escape_tags(text) == f"&lt;{text[1:]}"


@given(hostile_texts, hostile_texts)
def test_different_texts_are_escaped_differently(one: str, other: str) -> None:
    assert (escape_tags(one) == escape_tags(other)) == (one == other)


@given(st.sampled_from(TAGS), hostile_texts, hostile_texts)
def test_an_envelope_around_any_text_is_read_back_as_one_envelope(tag: str, text: str, said: str) -> None:
    told = f' by="{one_line(said)}"' if said else ""
    assert read_envelopes(envelope(tag, text, by=said)) == [Envelope(tag, told.strip(), text)]


@pytest.mark.parametrize("unit", ["<", "< ", "</", "&amp;", "<t\u200b", "<task", "&lt;/"])
def test_a_long_text_of_tag_beginnings_is_escaped_in_linear_time(unit: str) -> None:
    text = unit * 100_000  # what goes back and forth over it would run into the time limit of the tests
    assert unescape_tags(escape_tags(text)) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Find the tests", "Find the tests"),
        ("two\nlines\r\n\tof\u2028it ", "two lines of it"),
        ('say "done.** now', "say 'done.* now"),
        ("*\u200b* hidden \x00 signs", "* hidden signs"),
        ("close </task_result> it", "close &lt;/task_result> it"),
        ("the <Task /> of it", "the <Task /> of it"),
        ("a <file name=x> of it", "a &lt;file name=x> of it"),
        ("a <", "a &lt;"),
        ("a < / ", "a &lt; /"),
        ("x" * 121, "x" * 119 + "…"),
    ],
)
def test_a_description_becomes_one_line_without_quotes_or_runtime_tags(text: str, told: str) -> None:
    assert one_line(text) == told


@given(hostile_texts)
def test_no_description_breaks_its_line_its_quotes_or_its_stars(text: str) -> None:
    told = one_line(text)
    assert len(told.splitlines()) <= 1
    assert '"' not in told
    assert "**" not in told
    assert find_tags(told) == 0
