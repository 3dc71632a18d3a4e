"""Find what a git command can do besides what its name says."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from asyncagents.tools.shell.options import before_double_dash, matches_option, may_become_option
from asyncagents.tools.shell.word import Word, Words, has_wildcard, words_of
from asyncagents.tools.shell.wrappers import find_starts

_HARMLESS_OPTIONS = words_of("--no-pager --no-optional-locks")
_PLAIN_OPTIONS = _HARMLESS_OPTIONS | words_of("--version --help -h -v")
_KNOWN_SUBCOMMANDS = words_of(
    """
    add am apply bisect blame branch cat-file check-ignore checkout cherry cherry-pick clean clone
    commit count-objects describe diff diff-tree fetch for-each-ref format-patch fsck gc grep help
    init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff
    rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show show-ref stash
    status submodule switch symbolic-ref tag version whatchanged worktree
    """
)
_RISKY_OPTIONS = words_of(
    """
    --config --exec --ext-diff --extcmd --no-index --open-files-in-pager --output
    --output-directory --receive-pack --repo --separate-git-dir --server-option --strategy --template
    --textconv --unsafe-paths --upload-pack --web
    """
)
_RISKY_LETTERS = {
    "clone": "cu", "format-patch": "o", "grep": "O", "help": "w", "merge": "s", "pull": "s", "rebase": "xs",
}  # fmt: skip
# Subcommands whose next word is an action, and the actions that are harmless.
_PLAIN_ACTIONS = {
    "bisect": words_of("bad good log new next old reset skip start terms"),
    "notes": words_of("add append copy edit get-ref list merge prune remove show"),
    "remote": words_of("get-url prune remove rename rm set-branches set-head show update"),
    "submodule": words_of("deinit init status summary sync"),
    "worktree": words_of("list lock prune remove unlock"),
}
# Subcommands that contact another repository: a local one brings its own hooks and configuration.
_REMOTE_SUBCOMMANDS = words_of("clone fetch ls-remote pull push")
_FLAGS = words_of(
    """
    --all --atomic --bare --delete --dry-run --ff-only --follow-tags --force --force-with-lease --heads
    --mirror --no-rebase --no-tags --no-verify --progress --prune --quiet --rebase --recursive
    --set-upstream --tags --unshallow --update-head-ok --verbose -4 -6 -d -f -n -p -q -r -t -u -v
    """
)
_REMOTE_URL = re.compile(r"(https?|ssh|git)://.*")
# Actions of `git remote` that contact the remote; the others only change settings.
_REMOTE_QUERIES = words_of("prune set-head show update")
# Suffixes that git adds to the name of a repository.
_ENDINGS = ("", ".git", ".bundle")
_REFERENCE_OPTIONS = words_of("--reference --reference-if-able")
_LOCAL_URL = re.compile(r"[./~].*|file:.*")
# Subcommands that write files into the project, as the repository or a patch says.
_CHANGING_SUBCOMMANDS = words_of(
    """
    am apply bisect checkout cherry-pick clone merge mv pull rebase reset restore revert stash submodule
    switch worktree
    """
)
_NEW_BRANCH = {"checkout": "-b", "switch": "-c"}
_FILE_OPTIONS = words_of(
    """
    -F -t -f -O -S -X --contents --exclude-from --file --ignore-revs-file --pathspec-from-file --template
    """
)


def find_subcommand(arguments: Sequence[Word]) -> int:
    """Return the index of the subcommand; the number of arguments if there is none."""
    return len(list(takewhile(lambda argument: argument.startswith("-"), arguments)))


def find_dangers(arguments: Words) -> Iterator[str]:
    """Yield why a person must approve a git command: global options and subcommands can run programs."""
    at = find_subcommand(arguments)
    for option in arguments[:at]:
        if option not in _PLAIN_OPTIONS:
            yield f"git {option.partition('=')[0]} changes how git works"
    if at == len(arguments):
        return
    subcommand, rest = arguments[at], arguments[at + 1 :]
    if subcommand not in _KNOWN_SUBCOMMANDS:
        yield f"what git {subcommand} does is not known"
    risky = _RISKY_OPTIONS | {f"-{letter}" for letter in _RISKY_LETTERS.get(subcommand, "")}
    yield from (
        f"git {subcommand} {argument.partition('=')[0]} can run or write something"
        for argument in rest
        if matches_option(argument, risky)
    )
    yield from (
        f"git {subcommand} {word} can run something" for word in _unknown_actions(subcommand, arguments[at:])
    )
    yield from (f"what {argument} means to git is not known" for argument in rest if "::" in argument)
    unclear = [each for each in before_double_dash("git", rest) if may_become_option("git", each)]
    yield from (f"what {argument} means to git is not known" for argument in unclear)


def _unknown_actions(subcommand: Word, words: Words) -> Iterator[str]:
    if subcommand in _PLAIN_ACTIONS:
        starts = find_starts(words, (0, 0))
        yield from (words[start] for start in starts[:1] if words[start] not in _PLAIN_ACTIONS[subcommand])


def find_local_dangers(words: Words, places: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why a git command may use another repository on this machine."""
    at = find_subcommand(words[1:]) + 1
    if at < len(words):
        names = _find_repositories(words[at], words[at:])
        yield from (
            f"git {words[at]} of {name} may run what lies there" for name in names if _is_local(name, places)
        )


def _find_repositories(trade: str, words: Words) -> Iterator[Word]:
    """Yield the arguments that may name another repository."""
    if trade == "remote":
        at = next((at for at, word in enumerate(words) if word in _REMOTE_QUERIES), len(words))
        yield from (word for word in words[at + 1 :] if not word.startswith("-"))
    elif trade in _REMOTE_SUBCOMMANDS:
        starts = find_starts(words, (0, 0), _FLAGS, may_assign=False)
        yield from (words[start] for start in starts)
        glued = (word for word in words if "=" in word and matches_option(word, _REFERENCE_OPTIONS))
        yield from (word.slice_from(word.index("=") + 1) for word in glued)


def _is_local(name: Word, places: Sequence[str]) -> bool:
    """Return whether the name is, or may be, a local repository; a name with wildcards may be."""
    if has_wildcard(name) or _LOCAL_URL.fullmatch(name):
        return True
    return not _REMOTE_URL.fullmatch(name) and any(
        os.path.lexists(os.path.join(place, name + ending)) for place in places for ending in _ENDINGS
    )


def drop_harmless_options(words: Words) -> Words:
    """Drop harmless global options, so that rules for the subcommand match these words, too."""
    at = find_subcommand(words[1:]) + 1
    if words[0] != "git" or at >= len(words):
        return words
    return (words[0], *(word for word in words[1:at] if word not in _HARMLESS_OPTIONS), *words[at:])


def changes_files(words: Words) -> bool:
    """Return whether a git command may write new files or links into the project."""
    at = find_subcommand(words[1:]) + 1
    trade, rest = "".join(words[at : at + 1]), words[at + 1 :]
    if trade in _NEW_BRANCH and rest[:-1] == (_NEW_BRANCH[trade],):
        return False
    if trade == "reset":
        return bool({"--hard", "--merge", "--keep"} & set(rest))
    return trade in _CHANGING_SUBCOMMANDS


def reads_file(words: Words) -> bool:
    """Return whether a git command has an option that names a file to read."""
    return any(matches_option(word, _FILE_OPTIONS) for word in words[2:])
