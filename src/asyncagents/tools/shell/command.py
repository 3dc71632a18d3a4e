"""Find what one simple command of a shell line can do besides what its name says."""

import re
from collections.abc import Iterator
from itertools import pairwise

from asyncagents.tools.shell import git as shell_git
from asyncagents.tools.shell.options import (
    RISKY_OPTIONS,
    before_double_dash,
    matches_option,
    may_become_option,
)
from asyncagents.tools.shell.word import Word, Words, as_words, has_wildcard, words_of
from asyncagents.tools.shell.wrappers import OPAQUE

# Keywords of the shell: as a command's name they mean that the line was parsed wrongly.
GRAMMAR = words_of("! [[ ]] case do done elif else esac fi for function if in then until while { }")

# Commands whose arguments are paths.
PATHS = words_of(
    """
    awk base64 bat cat cd chgrp chmod chown cmp column comm cp cut dd df diff dir du egrep expand
    fgrep file find fmt fold grep gunzip gzip head hexdump install jq less link ln ls md5sum mkdir
    mkfifo mknod mktemp more mv nl od paste readlink realpath rg rm rmdir rsync scp sed sha1sum
    sha256sum shred shuf sort split stat strings sum tac tail tar tee touch tr tree truncate uniq
    unlink unzip vdir wc xxd zcat zip
    """
)
_ARCHIVERS = words_of("7z 7za 7zr 7zz cpio pax rar")
# Harmless programs and options of awk and sed; any other argument may run a program or write a file.
_AWK = re.compile(r"(?!.*(system|getline|ARG|ENVIRON|PROCINFO|SYMTAB|[|>@`]))[^-].*|-F.*|-v", re.DOTALL)
_ADDRESS = r"(\d+|\$|/[^/\\\n]*/)"
_PIECE = r"((?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)"
_SED = re.compile(
    rf"{_ADDRESS}?(,\+?{_ADDRESS})?!?([pdq=]|s(?P<by>[/|,#:@%]){_PIECE}{_PIECE}[gpI\d]*)|-[nErsuz]+|-e"
)
_TAR = re.compile(r"^[a-zA-Z]*[IFThPg]")
# An archive on another machine, for which tar starts a remote shell.
_TAR_ELSEWHERE = re.compile(r"(--f[a-z]*=)?[^/=]*:")
_LOADING = re.compile(r"(?<![.\w])((import|include)\s*[\"#@]|\w*load\w*\s*[(#])")
_UPLOAD = re.compile(r"file:|^(-[a-z]*|.)?@|[{\[]")
_ELSEWHERE = re.compile(r"(^|/)\.\.(/|$)|^/+(\./+)*proc/")
# The longest file name.
_MOST_LETTERS = 255


def find_dangers(given: tuple[str, ...]) -> Iterator[str]:
    """Yield the reasons why a person must approve this command, whatever the rules allow."""
    words = as_words(given)
    name, arguments = words[0], words[1:]
    if name in OPAQUE:
        yield f"{name} runs or changes something else"
    if name in GRAMMAR or not name:
        yield "the line cannot be read for certain"
    if name in RISKY_OPTIONS:
        risky = [argument for argument in arguments if matches_option(argument, RISKY_OPTIONS[name])]
        yield from (f"{name} {argument.partition('=')[0]} can run or write something" for argument in risky)
    if _runs_a_program(name, arguments):
        yield f"{name} can run or write something"
    yield from shell_git.find_dangers(arguments) if name == "git" else _find_odd_arguments(name, arguments)


def find_path_dangers(program: str) -> list[str]:
    """Return why a program given by this path needs a person's approval."""
    return ["the program lies elsewhere"] if "/" in program and _ELSEWHERE.search(program) else []


def _find_odd_arguments(name: str, arguments: Words) -> Iterator[str]:
    if any(may_become_option(name, argument) for argument in before_double_dash(name, arguments)):
        yield f"a file's name may be an option of {name}"
    if name == "cd" and any(argument.startswith("-") or has_wildcard(argument) for argument in arguments):
        yield "where cd leads is not known"
    if name in {"less", "more"} and any(argument.startswith("+") for argument in arguments):
        yield f"{name} can run something"


def _runs_a_program(name: str, arguments: Words) -> bool:
    """Return whether an argument is, or may be, a program that does more than print."""
    match name:
        case "awk" | "gawk" | "mawk" | "nawk":
            return not _is_plain_awk(arguments)
        case "sed":
            return not _is_plain_sed(arguments)
        case "tar":
            return any(map(_TAR.search, arguments[:1])) or any(map(_TAR_ELSEWHERE.match, arguments))
        case "make":
            return any("=" in argument or "$" in argument for argument in arguments)
        case "curl" | "wget":
            return any(_UPLOAD.search(argument.lower()) for argument in arguments)
        case "uniq" | "xxd":
            return _count_files(arguments) > 1
        case "jq" | "yq":
            return any(map(_LOADING.search, arguments))
        case _:
            return name in {"split", "csplit"} or name in _ARCHIVERS


def _count_files(arguments: Words) -> int:
    """Count the arguments that may be file names: a single `-` is one, and so is everything after `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    named = [each for each in arguments[:end] if each == "-" or not each.startswith("-")]
    return len(named) + len(arguments[end + 1 :])


def _is_plain_awk(arguments: Words) -> bool:
    """Check every argument, and that the program has no wildcard: the shell would expand it to file names."""
    valued = {at + 1 for at, argument in enumerate(arguments) if argument in {"-F", "-v"}}
    texts = [each for at, each in enumerate(arguments) if at not in valued and not each.startswith("-")]
    return all(_AWK.fullmatch(argument) for argument in arguments) and not any(map(has_wildcard, texts[:1]))


def _is_plain_sed(arguments: Words) -> bool:
    """Check the options and the programs: those after `-e`, else the first argument that is not an option."""
    options = [argument for argument in arguments if argument.startswith("-") and argument != "--"]
    others = [argument for argument in arguments if not argument.startswith("-")]
    programs = [word for before, word in pairwise(arguments) if before == "-e"] or others[:1]
    return not any(map(has_wildcard, programs)) and all(
        _SED.fullmatch(each) for each in (*options, *programs)
    )


def find_file_arguments(words: Words) -> Iterator[Word]:
    """Yield the arguments that may name a file, including values joined to an option."""
    for word in words[1:]:
        equals = word.find("=") + 1
        if not word.startswith("-"):
            yield word
            if word.startswith("@"):
                yield word.slice_from(1)
        elif not word.startswith("--"):
            # Where the value begins is not known, but no option letter is `/`.
            last = word.index("/") + 1 if "/" in word else len(word)
            yield from (word.slice_from(start) for start in range(2, min(last, _MOST_LETTERS)))
            if last > _MOST_LETTERS:
                yield Word("/")  # trying every possible value would take too long
        if word.startswith("-") and "/" in word and not equals:
            yield word.slice_from(word.index("/"))
        if equals:
            yield word.slice_from(equals)
