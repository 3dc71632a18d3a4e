"""Find the paths outside the project that the words of a shell line may name."""

import os
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from asyncagents.tools.shell import git as shell_git
from asyncagents.tools.shell.command import PATHS, find_file_arguments
from asyncagents.tools.shell.glob import ANYWHERE, BoundedDisk, TooMuchWork, join_path, resolve_links
from asyncagents.tools.shell.links import NameChanges
from asyncagents.tools.shell.options import before_double_dash
from asyncagents.tools.shell.word import Word, Words, has_wildcard, may_split, words_of

MOST_FOLDERS = 16
# Variables that are harmless as words; as file names they may be anything.
_VARIABLE = re.compile(r"\$(\?|#|\$|USER|\{USER\})")
# Programs that take no file as an argument.
_PRINTING = words_of("echo exit printf return test")
_HIDDEN_ABOVE = re.compile(r"/\.[*?\[][^/]*")


class ShellContext(Struct, frozen=True):
    """Where a shell line runs: the project's directory, the start folder, the user's home."""

    directory: str
    start: str
    home: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables whose values are known."""
        return {"HOME": self.home, "PWD": self.start}

    @property
    def splitting_variables(self) -> frozenset[str]:
        """The variables that the shell may split into several words, or none, if they are not quoted."""
        started = (self.start, resolve_links(self.start))
        return frozenset(
            [*(["HOME"] if may_split(self.home) else []), *(["PWD"] if any(map(may_split, started)) else [])]
        )


class WorkingFolders:
    """The folders that a line may be in: each earlier `cd` may have succeeded or not."""

    def __init__(self, context: ShellContext | None) -> None:
        self.home = context.home if context else "/"
        self.folders = [context.start] if context else []

    def follow_cd(self, words: Words) -> list[str]:
        """Record a `cd`; return the folders that it may lead to."""
        if words[0] != "cd" or not self.folders:
            return []
        if len(self.folders) >= MOST_FOLDERS:
            return [ANYWHERE]
        target = words[1] if len(words) > 1 else Word(self.home)
        there = [str(join_path(place, expand_word(target, self.home, place))) for place in self.folders]
        # For cd, `link/..` is the folder that contains the link, not the parent of its target.
        there += [os.path.normpath(each) for each in there if ".." in each.split("/")]
        self.folders += there
        return there


class PathSurvey:
    """The paths outside the project that a line names, and the reasons why it needs a person's approval."""

    def __init__(self, context: ShellContext) -> None:
        self._context = context
        self._disk = BoundedDisk()
        self._project = resolve_links(context.directory)
        self.outside: dict[str, None] = {}
        """The real paths outside the project that the line names."""
        self.reasons: list[str] = []

    def survey_commands(self, commands: Iterable[Words]) -> None:
        """Examine the commands of a line in order."""
        folders = WorkingFolders(self._context)
        changes = NameChanges(self._disk)
        try:
            self._note_outside(folders.folders[0])
            for words in commands:
                self._survey_command(words, folders, changes)
        except TooMuchWork:
            self.reasons.append("it may name more files than can be looked at")
            self._note_outside(ANYWHERE)

    def _survey_command(self, words: Words, folders: WorkingFolders, changes: NameChanges) -> None:
        for path in self.find_named_paths(words, folders):
            self._note_outside(path)
        filled = (words[0], *(expand_word(word, folders.home, folders.folders[0]) for word in words[1:]))
        self.reasons.extend(changes.find_dangers(filled, folders.folders))
        if words[0] == "git":
            self.reasons.extend(shell_git.find_local_dangers(filled, folders.folders))
        for path in folders.follow_cd(words):
            self._note_outside(path)

    def _note_outside(self, path: str) -> None:
        real = resolve_links(path)
        if real not in {self._project, os.devnull} and not real.startswith(self._project.rstrip("/") + "/"):
            self.outside[real] = None

    def find_named_paths(self, words: Words, folders: WorkingFolders) -> Iterator[str]:
        """Yield every path that may be meant. Raises `TooMuchWork`."""
        for path in self._find_candidate_paths(words, folders):
            self._disk.spend()
            yield path

    def _find_candidate_paths(self, words: Words, folders: WorkingFolders) -> Iterator[str]:
        options = len(before_double_dash(words[0], words[1:]))
        for at, word in enumerate(words[1:]):
            for part in filter(None, find_file_arguments((words[0], word))):
                if words[0] in PATHS and _VARIABLE.search(part):
                    yield ANYWHERE  # only the shell knows which file that is
                elif words[0] not in _PRINTING:
                    part = _widen_variables(part)
                for place in folders.folders:
                    path = join_path(place, expand_word(part, folders.home, place))
                    yield from self._expand_wildcards(path, place, may_be_option=at < options)
                    if words[0] == "ln":
                        yield from _link_target_paths(path, words)

    def _expand_wildcards(self, path: Word, place: str, *, may_be_option: bool) -> Iterator[str]:
        """Yield the paths that a path with wildcards may match; a match may be a link out of the project."""
        if not has_wildcard(path):
            yield path
            return
        yield re.split(r"[*?\[]", path.shape)[0]
        if _HIDDEN_ABOVE.search(path):  # before 5.2, `.?` is also `..` to bash
            yield _HIDDEN_ABOVE.sub("/..", path, count=1)
            yield _HIDDEN_ABOVE.sub("/..", path)
        for match in self._disk.find_matches(path):
            yield match
            # Each match becomes a word: it may be an option, or name a file after its `=`.
            name = match.removeprefix(place.rstrip("/") + "/")
            if may_be_option and name.startswith("-"):
                self.reasons.append(f"the name of the file {name} looks like an option")
            yield from (
                os.path.join(place, part)
                for part in find_file_arguments((Word(""), Word(name)))
                if part != name
            )


def find_paths(commands: Iterable[Words], context: ShellContext) -> Iterator[str]:
    """Yield the real path of everything that the commands may name, the start folder first."""
    survey, folders = PathSurvey(context), WorkingFolders(context)
    try:
        yield resolve_links(folders.folders[0])
        for words in commands:
            yield from map(resolve_links, survey.find_named_paths(words, folders))
            yield from map(resolve_links, folders.follow_cd(words))
    except TooMuchWork:
        yield ANYWHERE


def _widen_variables(word: Word) -> Word:
    """Replace each variable of unknown value by `*`, which matches every name."""
    text, shape, at = "", "", 0
    for found in _VARIABLE.finditer(word):
        text += word[at : found.start()] + "*"
        shape += word.shape[at : found.start()] + "*"
        at = found.end()
    return Word(text + word[at:], shape + word.shape[at:])


def _link_target_paths(path: Word, words: Words) -> Iterator[str]:
    """Yield the possible targets of a link: they are relative to the folder that contains it."""
    for word in words[1:]:
        yield os.path.join(os.path.dirname(path), word)
        yield os.path.join(path, word)


def expand_word(word: Word, home: str, place: str) -> Word:
    """Expand `~`, `$HOME` and `$PWD` as the shell would."""
    word = word.fill_variables({"HOME": home, "PWD": place})
    if word == "~" or word.startswith("~/"):
        word = Word(home + word[1:], home + word.shape[1:])
    elif word.startswith("~"):
        word = Word("/" + word, "/" + word.shape)
    return Word(word.replace("\0", "_"), word.shape.replace("\0", "_"))
