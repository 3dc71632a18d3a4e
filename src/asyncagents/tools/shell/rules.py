"""Parse a shell line for the permission rules: each simple command as text, and reasons to ask a person.

Every syntax that is not known to be harmless needs a person's approval: the shell's grammar has too many ways
to hide a command to list them.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from tree_sitter import Node

from asyncagents.domain.agent.permission import UNCLEAR
from asyncagents.engine.tool import Ask
from asyncagents.tools.file.external_directory import line_asks
from asyncagents.tools.shell import command as shell_command
from asyncagents.tools.shell import git as shell_git
from asyncagents.tools.shell import wrappers as shell_wrappers
from asyncagents.tools.shell.approval import LineContext, exact_line, line_patterns, reads_only
from asyncagents.tools.shell.known_commands import holds_secrets
from asyncagents.tools.shell.paths import PathSurvey, ShellContext, WorkingFolders, find_paths
from asyncagents.tools.shell.syntax_tree import (
    ParseLine,
    has_ancestor,
    has_descendant,
    is_quoted,
    may_read_late,
    parse_line,
)
from asyncagents.tools.shell.word import Word, Words, node_text, read_word, spellings, words_of

MOST_CHARACTERS = 20_000
MOST_DEPTH = 3
MOST_COMMANDS = 64
MOST_TEXTS = 16

# Node types that cannot hide a command.
_PLAIN_NODES = words_of(
    """
    case_item case_statement command command_name comment compound_statement concatenation do_group
    elif_clause else_clause expansion file_descriptor file_redirect for_statement heredoc_body
    heredoc_content heredoc_end heredoc_redirect heredoc_start herestring_redirect if_statement list
    negated_command number pipeline program raw_string redirected_statement simple_expansion
    special_variable_name string string_content subshell test_command test_operator unary_expression
    variable_assignment variable_name while_statement word
    """
)
_LOOPS = words_of("for_statement while_statement")
_WRAPPING = shell_wrappers.OPAQUE | shell_wrappers.WRAPPERS
_TOO_MUCH = "it is too long or too deep to be judged"
_NODE_REASONS = {
    "ansi_c_string": "it hides text by $'…'",
    "arithmetic_expansion": "it calculates",
    "command_substitution": "it runs a command to get a word",
    "declaration_command": "it declares variables",
    "ERROR": "it is not valid shell",
    "function_definition": "it defines a function",
    "process_substitution": "it runs a command to get a file",
    "unset_command": "it unsets variables",
}
_KNOWN_VARIABLES = words_of("$HOME $PWD $USER $? $$ $# ${HOME} ${PWD} ${USER}")
# Variables that change how a program prints, never which one runs.
_HARMLESS_VARIABLES = words_of("CI COLUMNS FORCE_COLOR LANG LC_ALL LINES NO_COLOR PYTHONUNBUFFERED TZ")
_WORD = re.compile(r"(?!~[^/])[^`]*", re.DOTALL)
_ONE_WORD = re.compile(r"(?!~[^/])(?:[^`\s\\]|\\[^\n])*")
_PLAIN_FORMS = {
    "compound_statement": re.compile(r"\{\s.*", re.DOTALL),
    "concatenation": _WORD,
    "file_descriptor": re.compile(r"[0-9]"),
    "for_statement": re.compile(r"for\s+[a-z_][a-z0-9_]*\s.*", re.DOTALL),
    "string": re.compile(r"[^`]*"),
    "test_command": re.compile(r"\[\[? (! )?-[defnrswxz] [\w./'\"-]+ \]\]?"),
    "word": _ONE_WORD,
}
_HEREDOC_NODES = words_of("<< <<- heredoc_start heredoc_body heredoc_end")
_BEFORE = frozenset({b"", b" ", b"\t", b"\n", b";"})
_DELIMITER = re.compile(r"^(['\"]?)(\w+)\1$")
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*")
# Between two words there is a blank, and no end of a line.
_BLANK = re.compile(rb"(?:[ \t]|\\\n)*[ \t](?:[ \t]|\\\n)*")
_GAPS = {"command": _BLANK, "negated_command": _BLANK, "concatenation": re.compile(rb"")}


class ParsedLine(Struct, frozen=True, kw_only=True):
    commands: tuple[Words, ...]
    """The words of each simple command, in order."""
    patterns: tuple[str, ...]
    """The texts to match against rules: all must be allowed, any may be denied. Never empty."""
    reasons: tuple[str, ...] = ()
    """Why a person must approve the line even if the rules allow it."""
    outside: tuple[str, ...] = ()
    """Real paths outside the project that the line may name."""
    redirect_targets: tuple[Word, ...] = ()
    """Files that redirections name."""

    @property
    def asks_always(self) -> bool:
        """Whether the line asks even if rules allow it; rules that deny still apply."""
        return bool(self.reasons)


def parse_command(
    command: str, context: ShellContext | None = None, parse: ParseLine = parse_line
) -> ParsedLine:
    """Parse a shell line of any content.

    `context`: where the line would run; without it, nothing is looked up on the disk.
    """
    reading = _LineReader(context, parse)
    reading.read(command)
    reading.finish()
    patterns = [_command_text(words) for words in reading.commands]
    if not patterns:
        reading.reasons.append("no command was found in it")
    if reading.reasons:
        patterns.append(command.strip() or "(nothing)")
    return ParsedLine(
        commands=tuple(reading.commands),
        patterns=tuple(dict.fromkeys(patterns)),
        reasons=tuple(dict.fromkeys(reading.reasons)),
        outside=reading.outside,
        redirect_targets=tuple(reading.files),
    )


def command_asks(
    command: str, *, directory: Path, start: Path, home: Path, parse: ParseLine = parse_line
) -> tuple[Ask, ...]:
    """Return the asks of a command that starts in `start`, in the project at `directory`."""
    context = ShellContext(str(directory), str(start), str(home))
    parsed = parse_command(command, context, parse)
    folder = "" if (there := os.path.realpath(start)) == (top := os.path.realpath(directory)) else there
    line_context = LineContext(
        command, at_top=not folder and all(_stays_in_project(words, top) for words in parsed.commands)
    )
    lasting = () if parsed.reasons else line_patterns(parsed.commands, line_context)
    if lasting and _names_secret(parsed, context):
        lasting = ()
    exactly = exact_line(command, os.path.relpath(there, top) if folder else "")
    asked = Ask(
        "bash",
        parsed.patterns,
        always=lasting or exactly,
        exact=not lasting and bool(exactly),
        metadata={
            "command": command,
            **({"workdir": there} if folder else {}),
            **({"reasons": list(parsed.reasons)} if parsed.reasons else {}),
        },
        also=(UNCLEAR,) if parsed.asks_always else (),
        narrow=True,
    )
    if not parsed.outside:
        return (asked,)
    ask = replace(asked, always=exactly, exact=bool(exactly))
    reads = not parsed.reasons and reads_only(parsed.commands)
    return *line_asks(parsed.outside, ask, home=str(home), reads=reads), asked


def _names_secret(parsed: ParsedLine, context: ShellContext) -> bool:
    """Return whether the real path of a file or folder that a line names usually holds secrets."""
    top = os.path.realpath(context.directory).rstrip("/") + "/"
    named = find_paths(
        [*parsed.commands, *((Word("cat"), file) for file in parsed.redirect_targets)], context
    )
    return any(holds_secrets(path.removeprefix(top)) for path in named if path.startswith(top))


def _stays_in_project(words: Words, top: str) -> bool:
    """Return whether later commands still run in the project's root folder after this command."""
    return words[0] != "cd" or (len(words) == 2 and os.path.realpath(os.path.join(top, words[1])) == top)


def _command_text(words: tuple[str, ...]) -> str:
    return " ".join(word if word and not re.search(r"[\s'\"\\]", word) else f"'{word}'" for word in words)


class _LineReader:
    """Walks the syntax tree of a line without recursion, since a line may nest to any depth."""

    def __init__(self, context: ShellContext | None, parse: ParseLine) -> None:
        self.commands: list[Words] = []
        self.reasons: list[str] = []
        self.outside: tuple[str, ...] = ()
        self._context = context
        self._parse = parse
        self._working_folders = WorkingFolders(context)
        self._variables = context.variables if context else {"HOME": "/home", "PWD": "/project"}
        self._splitting_variables = context.splitting_variables if context else frozenset()
        self._unquoted_variables: set[str] = set()
        self.files: list[Word] = []
        self._repeated_commands: list[Words] = []
        self._text_count = 0

    def finish(self) -> None:
        """Add the reasons and the outside paths that depend on the whole line."""
        if "PWD" in self._unquoted_variables and any(words[0] == "cd" for words in self.commands):
            self.reasons.append("what $PWD holds after cd is not known")
        if self._context:
            survey = PathSurvey(self._context)
            survey.survey_commands(
                [*self.commands, *self._repeated_commands, *((Word("cat"), file) for file in self.files)]
            )
            self.reasons.extend(survey.reasons)
            self.outside = tuple(survey.outside)

    def read(self, text: str, depth: int = 0) -> None:
        self._text_count += 1
        if len(text) > MOST_CHARACTERS or depth > MOST_DEPTH or self._text_count > MOST_TEXTS:
            self.reasons.append(_TOO_MUCH)
            return
        self.reasons.extend(_find_strange_characters(text))
        source = text.encode("utf-8", "replace")
        tree = self._parse(source)
        if tree is None:
            self.reasons.append(_TOO_MUCH)
            return
        root = tree.root_node
        if root.has_error:
            self.reasons.append(_NODE_REASONS["ERROR"])
        if not _GAP.fullmatch(source[: root.start_byte] + source[root.end_byte :]):
            self.reasons.append("a part of it cannot be read")
        nodes = [root]
        while nodes:
            node = nodes.pop()
            self._read_node(node, source, depth)
            nodes.extend(reversed(node.children))

    def _read_node(self, node: Node, source: bytes, depth: int) -> None:
        if node.is_named and node.type not in _PLAIN_NODES:
            self.reasons.append(_NODE_REASONS.get(node.type, f"it has a {node.type.replace('_', ' ')}"))
        self.reasons.extend(_find_gaps(node, source))
        match node.type:
            case "&":
                self.reasons.append("it leaves a process behind")
            case "comment" | "file_descriptor" if (
                source[max(node.start_byte - 1, 0) : node.start_byte] not in _BEFORE
            ):
                self.reasons.append(f"where its {node.type.replace('_', ' ')} begins is not known")
            case "command":
                self._read_command(node, source, depth)
            case "file_redirect":
                self._read_redirect(node, source)
            case _:
                self.reasons.extend(self._find_unquoted_variables(node, source))
                self.reasons.extend(_find_unusual_forms(node, source))

    def _find_unquoted_variables(self, node: Node, source: bytes) -> Iterator[str]:
        """Record an unquoted variable; yield a reason if the shell may split its value into words."""
        if node.type not in {"simple_expansion", "expansion"} or is_quoted(node):
            return
        name = node_text(node, source).strip("${}")
        self._unquoted_variables.add(name)
        if name in self._splitting_variables:
            yield f"${name} is not one word here: it must be quoted"

    def _read_command(self, node: Node, source: bytes, depth: int) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        if has_descendant(name, {"simple_expansion", "expansion"}) or re.search(
            r"[*?\[\]{}~]", node_text(name, source)
        ):
            self.reasons.append("which program it runs is not known")
        given = node.children_by_field_name("argument")
        count = len(self.commands)
        self._add_command((read_word(name, source), *(read_word(child, source) for child in given)), depth)
        self._note_order(node, self.commands[count:])

    def _note_order(self, node: Node, added: Sequence[Words]) -> None:
        """Record commands that may run after later ones: in loops, and concurrently in pipes."""
        loops = has_ancestor(node, _LOOPS)
        if loops and any(words[0] == "cd" for words in added):
            self.reasons.append("where cd leads in a loop is not known")
        if loops or (has_ancestor(node, {"pipeline"}) and may_read_late(node, added)):
            self._repeated_commands.extend(added)

    def _add_command(self, words: Words, depth: int) -> None:
        """Add a command, and the commands that it would run."""
        if depth > MOST_DEPTH or len(self.commands) >= MOST_COMMANDS:
            self.reasons.append(_TOO_MUCH)
            return
        spelled = words[0]
        words = (Word(shell_wrappers.name_program(spelled, self._working_folders.folders)), *words[1:])
        words = shell_git.drop_harmless_options(words)
        self.commands.append(words)
        self._working_folders.follow_cd(words)
        for each in spellings(words, self._variables):
            self.reasons.extend(shell_command.find_dangers(each))
        elsewhere = shell_command.find_path_dangers(spelled)
        self.reasons.extend(elsewhere)
        self._unwrap(words, depth + 1)
        if elsewhere and "/" in words[0]:  # only the shell knows which file that is
            self._add_command((Word(os.path.basename(spelled)), *words[1:]), depth + 1)

    def _unwrap(self, words: Words, depth: int) -> None:
        """Add the commands and scripts that a wrapper would run."""
        found = list(shell_wrappers.find_exec_commands(words))
        if len(words) > shell_wrappers.MOST_WORDS and (found or words[0] in _WRAPPING):
            self.reasons.append(_TOO_MUCH)
            return
        texts: list[str] = []
        if words[0] in _WRAPPING:
            inner, certain = shell_wrappers.find_inner_commands(words)
            if not certain:
                self.reasons.append(f"what {words[0]} runs is not known")
            found += inner
            texts += () if certain else shell_wrappers.find_scripts(words)
        for each in found:
            if len(self.commands) < MOST_COMMANDS:
                self._add_command(each, depth)
        for text in texts[:MOST_TEXTS]:
            self.read(text, depth)

    def _read_redirect(self, node: Node, source: bytes) -> None:
        operators = {child.type for child in node.children if not child.is_named}
        destinations = node.children_by_field_name("destination")
        target = read_word(destinations[0], source) if destinations else Word("")
        if len(destinations) != 1:
            # The parser adds the words after a redirection to it; in bash they are arguments of the command.
            self.reasons.append("it has words after a redirection")
        if operators & {">&", "<&"} and (target.isdigit() or target == "-"):
            return
        if target.startswith(("/dev/tcp", "/dev/udp")) or operators & {">&", "<&", "<&-", ">&-"}:
            self.reasons.append("it redirects to a place that is not known")
        elif operators != {"<"} and target != os.devnull:
            self.reasons.append(f"it writes to {target}")
        self.files.append(target)


def _find_strange_characters(text: str) -> Iterator[str]:
    """Yield a reason for characters that are invisible, or that shell and parser may read differently."""
    if any(unicodedata.category(char)[0] in "ZC" and char not in " \n\t" for char in text):
        yield "it has invisible characters"
    if re.search(r"(?<![ \t])\\\n|(^|\n)[ \t]*\\\n|\\\n[ \t]*(#|\\|\n|$)", text):
        yield "it breaks a line within a word"


def _find_gaps(node: Node, source: bytes) -> Iterator[str]:
    """Yield a reason for text that the parser skips as blank, or where it splits words unlike bash."""
    if node.type in {"heredoc_body", "string"}:
        return
    at = node.start_byte
    form = _GAPS.get(node.type, _GAP)
    for child in node.children:
        gap = source[at : child.start_byte]
        if not _GAP.fullmatch(gap) or (at > node.start_byte and not form.fullmatch(gap)):
            yield "a part of it cannot be read"
        at = max(at, child.end_byte)


def _find_unusual_forms(node: Node, source: bytes) -> Iterator[str]:
    """Yield a reason for a node whose text is not in its harmless form."""
    text = node_text(node, source)
    match node.type:
        case "simple_expansion" | "expansion" if text not in _KNOWN_VARIABLES:
            yield f"what {text} holds is not known"
        case "variable_assignment" if text.partition("=")[0] not in _HARMLESS_VARIABLES:
            yield f"it sets {text.partition('=')[0]}"
        case "heredoc_redirect":
            yield from _check_heredoc(node, source)
        case "word" | "concatenation" if _expands_braces(text):
            yield "it expands braces"
        case kind if (form := _PLAIN_FORMS.get(kind)) and not form.fullmatch(text):
            yield f"its {kind.replace('_', ' ')} is not plain"
        case _:
            pass


def _expands_braces(text: str) -> bool:
    """Return whether bash may expand braces in the text to several words."""
    _, brace, rest = text.partition("{")
    return bool(brace) and ("," in rest or ".." in rest)


def _check_heredoc(node: Node, source: bytes) -> Iterator[str]:
    if any(child.type not in _HEREDOC_NODES for child in node.children):
        yield "it has words after a redirection"
    starts = [node_text(child, source) for child in node.children if child.type == "heredoc_start"]
    bodies = [node_text(child, source) for child in node.children if child.type == "heredoc_body"]
    ends = [node_text(child, source) for child in node.children if child.type == "heredoc_end"]
    delimiter = _DELIMITER.match(starts[0]) if len(starts) == len(bodies) == len(ends) == 1 else None
    if delimiter is None or ends[0].strip() != delimiter.group(2):
        yield "where its text ends is not known"
        return
    lines = [line.strip() for line in bodies[0].split("\n")]
    if delimiter.group(2) in lines or node_text(node, source).count("<<") != 1:
        yield "where its text ends is not known"
    if not delimiter.group(1) and re.search(r"[`\\]|\$\(", bodies[0]):
        yield _NODE_REASONS["command_substitution"]
