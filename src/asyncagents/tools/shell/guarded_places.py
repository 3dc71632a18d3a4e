"""Build the asks for guarded places that a shell line names: changing them asks, reading secret ones too."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from asyncagents.domain.agent.permission import GUARDED_PLACE
from asyncagents.engine.tool import Ask
from asyncagents.tools.file.files import Files
from asyncagents.tools.shell import rules as shell_rules
from asyncagents.tools.shell.command import find_dangers
from asyncagents.tools.shell.known_commands import FILE_READERS, GIT_FILE_READERS
from asyncagents.tools.shell.paths import ShellContext, find_paths
from asyncagents.tools.shell.syntax_tree import ParseLine, parse_line
from asyncagents.tools.shell.word import Word, Words, words_of

MOST_LOOKED_AT = 5_000
MOST_NAMED = 16
"""Most places that an ask lists."""
# Programs that read all files of a folder: always, or with one of these option letters.
_WHOLE_FOLDERS = {
    "ack": "", "ag": "", "bsdtar": "", "gtar": "", "jar": "", "rg": "", "rgrep": "", "rsync": "", "tar": "",
    "ug": "", "ugrep": "", "zip": "", "cp": "rRa", "egrep": "rRd", "fgrep": "rRd", "grep": "rRd",
    "pcre2grep": "rd", "pcregrep": "rd", "scp": "r",
}  # fmt: skip
_LONG_LETTERS = ("--recursive", "--archive", "--dereference-recursive", "--directories")
# Programs that skip the files named by `--exclude`.
_EXCLUDING = words_of("rsync tar")
_DEVICES = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd")


def guarded_asks(
    command: str, files: Files, *, start: Path, home: Path, parse: ParseLine = parse_line
) -> tuple[Ask, ...]:
    """Return what the line asks besides the `bash` permission: nothing, or one ask that names the places.

    Programs keep the names that the line gives them: a link in the project to a reader may be replaced.
    """
    parsed = shell_rules.parse_command(command, parse=parse)
    context = ShellContext(files.root, str(start), str(home))
    commands = [_without_excluded(words) for words in parsed.commands]
    redirected = [(Word("tee"), file) for file in parsed.redirect_targets]
    changing = [words for words in (*commands, *redirected) if words[0] == "cd" or not _only_reads(words)]
    reading = [words for words in commands if words[0] == "cd" or _only_reads(words)]
    found: dict[str, str] = {}
    if any(words[0] != "cd" for words in changing):
        found |= _find_guarded_paths(files, find_paths(changing, context), secret=False)
    if reading:
        found |= _find_guarded_paths(files, find_paths(reading, context), secret=True)
    if _is_ambiguous(files, (*commands, *redirected), context):
        found[files.root] = "which files it names is not known"
    whole = [words for words in commands if words[0] == "cd" or _reads_whole_folders(words)]
    if any(words[0] != "cd" for words in whole):
        for path in set(find_paths(whole, context)):
            found |= dict.fromkeys(files.guard.secrets_below(path), "it may not be read unasked")
    if not found:
        return ()
    names = tuple(_display_name(files, path) for path in sorted(found))
    names = names if len(names) <= MOST_NAMED else (*names[:MOST_NAMED], "*")
    reasons = list(dict.fromkeys(found.values()))
    return (Ask(GUARDED_PLACE, names, metadata={"command": command, "guarded": reasons}),)


def _find_guarded_paths(files: Files, paths: Iterator[str], *, secret: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    named = set(islice(paths, MOST_LOOKED_AT))
    if next(paths, None) is not None:
        found[files.root] = "it names too many files to look at all of them"
    for path in named:
        guard = files.guard.guard_at(path)
        if guard is None or path.startswith(_DEVICES) or (secret and guard.level == "guarded"):
            continue
        found[path] = guard.why
    return found


def _is_ambiguous(files: Files, commands: Sequence[Words], context: ShellContext) -> bool:
    """Return whether only the shell can tell which files are named, in a project with secret places."""
    if not any(set("*?[$") & set(word) for words in commands for word in words[1:]):
        return False
    if not files.guard.secrets_below(files.root):
        return False
    return "/" in set(find_paths(commands, context))


def _only_reads(words: Words) -> bool:
    if any(True for _ in find_dangers(words)):
        return False
    if words[0] == "git":
        trade = next((word for word in words[1:] if not word.startswith("-")), "status")
        return trade in GIT_FILE_READERS
    return words[0] in FILE_READERS


def _reads_whole_folders(words: Words) -> bool:
    letters = _WHOLE_FOLDERS.get(words[0])
    if not letters:
        return letters is not None
    return any(_has_letter(word, letters) for word in words[1:])


def _has_letter(word: str, letters: str) -> bool:
    if word.startswith("--"):
        return any(long.startswith(word.partition("=")[0]) for long in _LONG_LETTERS)
    return word.startswith("-") and bool(set(word[1:]) & set(letters))


def _without_excluded(words: Words) -> Words:
    if words[0] not in _EXCLUDING:
        return words
    return (words[0], *_drop_excludes(words[1:]))


def _drop_excludes(words: Sequence[Word]) -> Iterable[Word]:
    """Yield the words without `--exclude=x` and `--exclude x`."""
    skips = False
    for word in words:
        if not skips and not word.startswith("--exclude=") and word != "--exclude":
            yield word
        skips = not skips and word == "--exclude"


def _display_name(files: Files, path: str) -> str:
    """Return the path as rules name it: relative to the project if it is inside."""
    top = files.root.rstrip("/") + "/"
    return path.removeprefix(top) if path.startswith(top) else path
