"""Commands: a template is split before it is filled, so what is typed stays what it is, text."""

import shlex
import subprocess
from typing import assert_never

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from asyncagents.domain.agent.command import (
    FilePiece,
    Invocation,
    ShellPiece,
    TextPiece,
    argument_hints,
    fill_template,
    parse_invocation,
    parse_mentions,
    split_arguments,
)
from asyncagents.domain.text import replace_surrogates

EVIL = [
    "`touch x`",
    "!`touch x`",
    "$(touch x)",
    "'; touch x; '",
    '"; touch x; "',
    "\\'; touch x #",
    "$1 $2 $ARGUMENTS",
    "@/etc/passwd",
    " @/etc/passwd !`id` ",
    "a\nEOF\ntouch x",
    "a\0b",
    "\ud800",
    "* ~ {a,b}",
    "--",
    "-n",
    "```\n@x",
]
arguments = st.lists(st.sampled_from(EVIL) | st.text(max_size=8), max_size=4).map(" ".join)
templates = st.lists(
    st.sampled_from(
        [
            *("$1", "$2", "$9", "$10", "$ARGUMENTS", "!`", "`", "@", "@a/b.py", "@$1", " ", "\n", "```", "'"),
            *('"', "(", "$(", ")", "\\", "<<", "!`echo $1`", '!`echo "$2 $(echo $ARGUMENTS)"`', "x", "\0"),
        ]
    ),
    max_size=12,
).map("".join)


shells = st.lists(
    st.sampled_from(["$1", "$2", "$ARGUMENTS", "echo", " ", "'", '"', "(", "$(", ")", "\\", "<<", "\n", "#"]),
    min_size=1,
    max_size=10,
).map(lambda parts: f"!`echo {''.join(parts)}`")
# One word for every placeholder there is.
PLAIN = "a b c d e f g h i"


def clean(text: str) -> str:
    return replace_surrogates(text.replace("\0", ""))


def run(script: str) -> str:
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=20)
    return done.stdout.decode()


def script(template: str, typed: str) -> str:
    piece = fill_template(template, typed)[0]
    assert isinstance(piece, ShellPiece)
    return piece.script


@pytest.mark.parametrize(
    ("prompt", "invocation"),
    [
        ("/compact", Invocation("compact", "")),
        ("/review  a 'b c'\nd \n", Invocation("review", "a 'b c'\nd")),
        ("/team/fix\t1", Invocation("team/fix", "1")),
        ("/team:fix 1", Invocation("team:fix", "1")),
        ("/", None),
        ("/ compact", None),
        ("//", None),
        (" /compact", None),
        ("say /compact", None),
        ("/what? no", None),
        (f"/{'x' * 101}", None),
    ],
)
def test_a_prompt_that_begins_with_a_slash_and_a_name_calls_a_command(
    prompt: str, invocation: Invocation | None
) -> None:
    assert parse_invocation(prompt) == invocation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        (" a  b\n\tc ", ("a", "b", "c")),
        ("'a b' \"c d\"e f'g'", ("a b", "c de", "fg")),
        ("'' \"\"", ("", "")),
        (r'a\ b "\"\\\x" \'', ("a b", '"\\\\x', "'")),
        ("don't stop", ("don't", "stop")),
        ('it\'s "a b"', ("it's", "a b")),
        ('say "a b', ("say", '"a', "b")),
        ("end\\", ("end\\",)),
    ],
)
def test_arguments_are_split_as_a_shell_would(text: str, words: tuple[str, ...]) -> None:
    assert split_arguments(text) == words


@given(st.text(alphabet="ab '\"\\\n$#\0", max_size=12))
def test_arguments_with_balanced_quotes_are_split_as_shlex_does(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        assume(False)
    assert list(split_arguments(text)) == expected


@given(st.lists(st.text(max_size=6), max_size=5))
def test_words_survive_being_quoted_and_split(words: list[str]) -> None:
    assert split_arguments(shlex.join(words)) == tuple(words)


@pytest.mark.parametrize(
    ("template", "typed", "text"),
    [
        ("Fix $ARGUMENTS!", " a  'b c' ", "Fix a  'b c'!"),
        ("$1 then $2", "a 'b c' d e", "a then b c d e"),
        ("$2 before $1", "a b c", "b c before a"),
        ("Only $1", "a b c", "Only a b c"),
        ("$1-$3", "a b", "a-"),
        ("$1 $1", "", " "),
        ("$1 of $ARGUMENTS", "$2 $ARGUMENTS", "$2 $ARGUMENTS of $2 $ARGUMENTS"),
        ("It costs $10 and $0.", "a", "It costs $10 and $0.\n\na"),
        ("$ARGUMENTS_X", "a", "$ARGUMENTS_X\n\na"),
        ("Do it.\n", "a b", "Do it.\n\na b"),
        ("Do it.\n", " \n", "Do it.\n"),
        ("", "a", "a"),
    ],
)
def test_placeholders_are_filled_once(template: str, typed: str, text: str) -> None:
    assert fill_template(template, typed) == (TextPiece(text),)


def test_arguments_without_a_placeholder_follow_a_last_shell_piece() -> None:
    assert fill_template("!`ls`", "a") == (ShellPiece("ls", "ls"), TextPiece("\n\na"))


@pytest.mark.parametrize(
    ("template", "paths"),
    [
        ("@a.py", ["a.py"]),
        ("See @src/a.py, (@b) and @c/d.md.", ["src/a.py", "b", "c/d.md"]),
        ("@~/x @../y @/etc/z @.env", ["~/x", "../y", "/etc/z", ".env"]),
        ("@app/[id]/(group)/page.tsx [@x]", ["app/[id]/(group)/page.tsx", "x"]),
        ("me@example.org git@host:x a/@b x.@y", []),
        ("@scope/pkg@1.0 @@x @ @. @: @`x`", []),
        ('@app.route("/x")\n@decorated(1)', []),
        ("`@a` and `see @b`", []),
        ("```py\n@dataclass\n```\n@a", ["a"]),
        ("~~~\n```\n@a\n~~~\n@b", ["b"]),
        ("```\n@a", []),
        ("@" + "x" * 5000, []),
    ],
)
def test_a_file_is_named_where_a_word_begins_outside_of_code(template: str, paths: list[str]) -> None:
    pieces = fill_template(template, "")
    assert [piece.path for piece in pieces if isinstance(piece, FilePiece)] == paths
    assert "".join(piece.text for piece in pieces if not isinstance(piece, ShellPiece)) == template


def test_a_path_that_contains_arguments_is_marked_as_typed() -> None:
    assert fill_template("@$1 @src/$2.py @c", "'../a b' x\0y") == (
        FilePiece("../a b", typed=True),
        TextPiece(" "),
        FilePiece("src/xy.py", typed=True),
        TextPiece(" "),
        FilePiece("c"),
    )
    assert fill_template("See @$1", "") == (TextPiece("See "), TextPiece("@$1"))


@pytest.mark.parametrize(
    ("template", "commands"),
    [
        ("!`ls -l`", ["ls -l"]),
        ("a !`b` c (!`d`)", ["b", "d"]),
        ("```diff\n!`git diff`\n```", ["git diff"]),
        ("it`s !`ls`", ["ls"]),
        ("!`cat @a.py`", ["cat @a.py"]),
        ("!`a\nb`", ["a\nb"]),
        ("stop!`now` \\!`x` !!`y` `!`z``", []),
        ("!`` !` ` !`x", []),
        ("! `x`", []),
    ],
)
def test_a_command_for_the_shell_stands_between_backticks_after_a_mark(
    template: str, commands: list[str]
) -> None:
    pieces = fill_template(template, "")
    assert [piece.command for piece in pieces if isinstance(piece, ShellPiece)] == commands


@pytest.mark.parametrize(
    ("template", "typed", "output"),
    [
        ("!`printf '<%s>' $1`", "a b", "<a b>"),
        ("!`printf '<%s>' $1 $2`", "a 'b  c' *", "<a><b  c *>"),
        ("!`printf '<%s>' x $ARGUMENTS`", "a 'b  c' *", "<x><a><b  c><*>"),
        ("!`printf '<%s>' \"$ARGUMENTS\"`", "a  'b'", "<a  'b'>"),
        ("!`printf '<%s>' x $ARGUMENTS`", "", "<x>"),
        ("!`set -u; printf '<%s>' $1 $2`", "a", "<a><>"),
        ("!`echo 'a b' | awk '{print $2}'; : $1`", "x", "b\n"),
        ('!`printf \'<%s>\' "$(printf %s "$1")"`', "a  *", "<a *>"),
        ("!`printf '<%s>' \"$(printf '%s|' $1 $2)\"`", "'a  b' 'c  *'", "<a  b|c  *|>"),
        ("!`printf '<%s>' $(printf %s $1)`", "a", "<a>"),
        ("!`cat <<EOF\n$1\nEOF\n`", "$(echo x)", "$(echo x)\n"),
        ("!`echo \\$1 # $1\n`", "'a\necho x'", "$1\n"),
        ('!`echo $$1 >/dev/null; echo "$1"`', '"\\\'; echo x"', "\\'; echo x\n"),
    ],
)
def test_the_shell_gets_the_arguments_as_parameters(template: str, typed: str, output: str) -> None:
    assert run(script(template, typed)) == output


def test_a_shell_command_loses_its_nul_characters_and_surrogates() -> None:
    assert run(script("!`printf '%s|' '\0a\ud800' $1`", "\ud800\0")) == "a?|?|"


def test_a_placeholder_in_single_quotes_of_a_shell_command_is_not_filled() -> None:
    assert fill_template("!`awk '{print $1}' f`", "a") == (
        ShellPiece("awk '{print $1}' f", "awk '{print $1}' f"),
        TextPiece("\n\na"),
    )


def test_the_hints_of_a_template_are_its_placeholders_in_order() -> None:
    assert argument_hints("$ARGUMENTS @$2 !`x $1 '$3'` $1 $12") == ("$1", "$2", "$ARGUMENTS")


@settings(max_examples=300)
@given(templates, arguments)
@example("@$1 !`echo $1` $1", "!`id` @/etc/passwd")
def test_no_argument_adds_a_piece(template: str, typed: str) -> None:
    assume(typed.strip())
    for piece, plain in zip(fill_template(template, typed), fill_template(template, PLAIN), strict=True):
        match plain:
            case ShellPiece():
                assert isinstance(piece, ShellPiece)
                assert piece.command == plain.command
            case FilePiece(typed=True):
                # A path that comes out empty is text.
                assert isinstance(piece, FilePiece) or (
                    isinstance(piece, TextPiece) and piece.text in template
                )
            case FilePiece():
                assert piece == plain
            case TextPiece():
                assert isinstance(piece, TextPiece)
            case _:
                assert_never(plain)


@settings(max_examples=300)
@given(shells, arguments)
@example("!`echo $2 $ARGUMENTS`", "a '\n; id' b")
def test_a_script_has_quoted_arguments_and_then_the_unchanged_command(template: str, typed: str) -> None:
    # The plain arguments have no line break, so that the head of their script is whole lines.
    lines = script(template, PLAIN).split("\n")
    head = [line for line in lines if line.startswith(("ARGUMENTS=", "set -- "))]
    body = "\n".join(lines[len(head) :])
    filled = script(template, typed)
    assert filled.endswith(body)
    values = shlex.split(filled.removesuffix(body))
    if values and values[0].startswith("ARGUMENTS="):
        assert values.pop(0) == f"ARGUMENTS={clean(typed.strip())}"
    assert values[:2] == (["set", "--"] if head else [])
    words = clean(" ".join(split_arguments(typed)))
    assert words.startswith(" ".join(values[2:]).rstrip(" "))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=8) | st.sampled_from(EVIL), min_size=12, max_size=12))
@example(EVIL)
def test_every_argument_comes_out_of_bash_as_it_went_in(words: list[str]) -> None:
    """Many scripts in one process; each word of the output ends in a NUL."""
    places = ["$1", '"$1"', '"$(:)$1"', "$(:)$1", '""$1']
    scripts = [script(f"!`printf '%s\\0' {place}`", shlex.quote(word)) for word in words for place in places]
    scripts.append(script("!`printf '%s\\0' $ARGUMENTS`", shlex.join(words)))
    expected = [clean(word) for word in words for _ in places] + [clean(word) for word in words]
    assert run("\n".join(scripts)) == "".join(f"{word}\0" for word in expected)


@settings(max_examples=200)
@given(st.text(max_size=40) | templates, st.text(max_size=20))
def test_any_template_is_filled_and_without_placeholders_is_unchanged(template: str, typed: str) -> None:
    assert all(
        isinstance(piece, TextPiece | ShellPiece | FilePiece) for piece in fill_template(template, typed)
    )
    if not argument_hints(template) and "!`" not in template and "\0" not in template:
        pieces = fill_template(template, "")
        assert "".join(piece.text for piece in pieces if not isinstance(piece, ShellPiece)) == template


@pytest.mark.spec("S-07")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @a.txt, please", [("a.txt", 4)]),
        ("@a @b/c.d.", [("a", 0), ("b/c.d", 3)]),
        ("(@a) [@b] <@c>", [("a", 1), ("b", 6), ("c", 11)]),
        ("me@a.txt x@y", []),
        ("`@a` and ```\n@b\n```", [("b", 13)]),
        ("```\n@a\n```\n@b", [("b", 11)]),
        ("@app.route('/') @$1", [("$1", 16)]),
        ("!`cat @a`", []),
        ("@ @@ @@a", []),
    ],
)
def test_a_mention_is_a_word_with_an_at_that_stands_in_no_code(
    text: str, found: list[tuple[str, int]]
) -> None:
    assert [(mention.path, mention.start) for mention in parse_mentions(text)] == found
    assert all(text.startswith(mention.text, mention.start) for mention in parse_mentions(text))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("a)", "a"),
        ("(a)", "(a)"),
        ("(a))", "(a)"),
        ("a).]", "a"),
        ("[a(b])", "[a(b])"),
        ("a}})!?:.", "a"),
        (")" * 4_000, ""),
        ("(" * 2_000 + ")" * 2_000, "(" * 2_000 + ")" * 2_000),
        ("a" + ")" * 4_000, "a"),
    ],
)
def test_punctuation_and_brackets_that_nothing_opens_are_no_part_of_a_path(written: str, path: str) -> None:
    assert [mention.path for mention in parse_mentions(f"see @{written} x")] == ([path] if path else [])
