"""What one simple command of a shell line can do besides what its name says."""

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They run what they are given, or change what a later word means: no rule on their name can judge them.
OPAQUE = words_of(
    """
    . alias ash bash bg bind builtin busybox bwrap capsh chroot complete coproc csh dash declare
    disown doas enable entr env eval exec export fg fish flock gdb getopts hash history ionice jobs
    ksh let local ltrace mapfile nohup nsenter parallel popd pushd read readarray readonly runuser
    rsh script select set setarch setpriv setsid sh shopt source ssh start-stop-daemon stdbuf strace
    su sudo systemd-run taskset tcsh trap typeset unalias unbuffer unset unshare wait watch xargs xonsh
    zsh
    """
)
# Words of the grammar: as a command's name they mean that the line was read wrongly.
GRAMMAR = words_of("! [[ ]] case do done elif else esac fi for function if in then until while { }")
SHELLS = words_of("ash bash csh dash fish ksh sh tcsh zsh")
# They run the rest of their words as a command; the rest is judged too.
WRAPPERS = words_of("command nice time timeout")

# Commands whose words are paths.
PATHS = words_of(
    """
    awk base64 bat cat cd chgrp chmod chown cmp column comm cp cut dd df diff dir du egrep expand
    fgrep file find fmt fold grep gunzip gzip head hexdump install jq less link ln ls md5sum mkdir
    mkfifo mknod mktemp more mv nl od paste readlink realpath rg rm rmdir rsync scp sed sha1sum
    sha256sum shred shuf sort split stat strings sum tac tail tar tee touch tr tree truncate uniq
    unlink unzip vdir wc xxd zcat zip
    """
)
# Options that run a program or write a file, although the command's name says neither.
OPTIONS: dict[str, frozenset[str]] = {
    "bat": frozenset({"--pager"}),
    "cp": frozenset({"-L", "--dereference", "-H"}),
    "curl": words_of(
        """
        -c -d -D -E -F -K -o -O -T --alt-svc --cert --config --cookie-jar --data --data-binary --data-raw
        --data-urlencode --dump-header --etag-save --form --hsts --key --libcurl --netrc-file --output
        --output-dir --remote-name --remote-name-all --stderr --trace --trace-ascii --upload-file
        """
    ),
    "date": frozenset({"-s", "--set"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "diff": frozenset({"-r", "--recursive"}),
    "egrep": frozenset({"-R", "--dereference-recursive"}),
    "fgrep": frozenset({"-R", "--dereference-recursive"}),
    "find": words_of(
        "-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir -files0-from -L -follow"
    ),
    "grep": frozenset({"-R", "--dereference-recursive"}),
    "install": frozenset({"-s", "--strip", "--strip-program"}),
    "less": frozenset({"-o", "-O", "-k", "--log-file", "--lesskey-file", "--lesskey-src"}),
    "make": frozenset({"-C", "--directory", "-E", "--eval", "-f", "--file", "--makefile", "-I"}),
    "man": frozenset({"-P", "--pager", "-H", "--html", "-C", "--config-file"}),
    "printf": frozenset({"-v"}),
    "rg": frozenset({"--pre", "--hostname-bin", "-L", "--follow"}),
    "scp": frozenset({"-F", "-i", "-J", "-o", "-S", "-D"}),
    "shuf": frozenset({"-o", "--output"}),
    "sort": frozenset({"-o", "--output", "--compress-program", "-T", "--files0-from"}),
    "split": frozenset({"--filter"}),
    "tar": frozenset(
        {"-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--rsh-command"}
        | {"--info-script", "--new-volume-script", "--rmt-command", "-T", "--files-from", "-h"}
        | {"--dereference", "-P", "--absolute-names"}
    ),
    "test": frozenset({"-v"}),
    "tree": frozenset({"-o", "-l"}),
    "rsync": frozenset({"-e", "--rsh", "--rsync-path"}),
    "wget": words_of(
        """
        -a -e -i -o -O -P --append-output --body-file --config --execute --input-file --load-cookies
        --output-document --output-file --post-file --save-cookies --use-askpass --warc-file
        """
    ),
    "wc": frozenset({"--files0-from"}),
    "zip": frozenset({"-T", "-TT", "--unzip-command", "-r", "-R", "--recurse-paths"}),
}
# Of these a file whose name begins with a dash would be an option.
GLOBS = words_of("chmod chown install rsync scp sort split tar zip")

GIT_PLAIN = frozenset({"--no-pager", "--version", "--help", "-h", "-v", "--no-optional-locks"})
GIT_TRADES = words_of(
    """
    add am apply bisect blame branch cat-file check-ignore checkout cherry cherry-pick clean clone
    commit count-objects describe diff diff-tree fetch for-each-ref format-patch fsck gc grep help
    init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff
    rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show show-ref stash
    status submodule switch symbolic-ref tag version whatchanged worktree
    """
)
GIT_OPTIONS = words_of(
    """
    --config --exec --ext-diff --extcmd --no-index --open-files-in-pager --output --output-directory
    --receive-pack --separate-git-dir --server-option --strategy --template --textconv
    --unsafe-paths --upload-pack --web
    """
)
GIT_LETTERS = {"clone": "cu", "rebase": "xs", "grep": "O", "format-patch": "o", "merge": "s", "help": "w"}
GIT_WORDS = {
    "bisect": words_of("run"),
    "submodule": words_of("foreach add update"),
    "remote": words_of("add set-url"),
}

# What a word may be that is a program to these commands, or an option: anything else may run or write.
_AWK = re.compile(r"(?!.*(system|getline|ARG|ENVIRON|PROCINFO|SYMTAB|[|>@`]))[^-].*|-F.*|-v", re.DOTALL)
_ADDRESS = r"(\d+|\$|/[^/\\\n]*/)"
_PIECE = r"((?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)"
_SED = re.compile(
    rf"{_ADDRESS}?(,\+?{_ADDRESS})?!?([pdq=]|s(?P<by>[/|,#:@%]){_PIECE}{_PIECE}[gpI\d]*)|-[nErsuz]+|-e"
)
_TAR = re.compile(r"^[a-zA-Z]*[IFThP]")


def dangers(words: tuple[str, ...]) -> Iterator[str]:
    """Why these words need a person, whatever the rules allow."""
    name, arguments = words[0], words[1:]
    if name in OPAQUE:
        yield f"{name} runs or changes something else"
    if name in GRAMMAR or not name:
        yield "the line cannot be read for certain"
    if ".." in name.split("/"):
        yield "the program lies elsewhere"
    if name in OPTIONS:
        risky = [argument for argument in arguments if _is_one_of(argument, OPTIONS[name])]
        yield from (f"{name} {argument.partition('=')[0]} can run or write something" for argument in risky)
    if _runs_a_program(name, arguments):
        yield f"{name} can run or write something"
    yield from _git(arguments) if name == "git" else _odd(name, arguments)


def _odd(name: str, arguments: tuple[str, ...]) -> Iterator[str]:
    if name in GLOBS and any(argument[:1] in {"*", "?", "["} for argument in arguments):
        yield f"a file's name may be an option of {name}"
    if name == "cd" and any(argument.startswith("-") for argument in arguments):
        yield "where cd leads is not known"


def _runs_a_program(name: str, arguments: tuple[str, ...]) -> bool:
    """Whether one of the words is, or may be, a program that does more than print."""
    match name:
        case "awk" | "gawk" | "mawk" | "nawk":
            return not all(_AWK.fullmatch(argument) for argument in arguments)
        case "sed":
            return not _is_plain_sed(arguments)
        case "tar":
            return any(_TAR.search(argument) for argument in arguments)
        case "make":
            return any("=" in argument or "$" in argument for argument in arguments)
        case "curl" | "wget":
            return any(re.search(r"file:|^.?@|[{\[]", argument.lower()) for argument in arguments)
        case "uniq" | "xxd":
            return sum(not argument.startswith("-") for argument in arguments) > 1
        case _:
            return False


def _is_plain_sed(arguments: tuple[str, ...]) -> bool:
    """The first word that is no option is the program, unless `-e` says which are."""
    options = [argument for argument in arguments if argument.startswith("-")]
    others = [argument for argument in arguments if not argument.startswith("-")]
    programs = [word for before, word in pairwise(arguments) if before == "-e"] or others[:1]
    return all(_SED.fullmatch(each) for each in (*options, *programs))


def _is_one_of(argument: str, options: frozenset[str]) -> bool:
    """Long options may be shortened, short ones put together or followed by their value."""
    if argument in options:
        return True
    if argument.startswith("--"):
        name = argument.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in options)
    letters = {option[1] for option in options if len(option) == 2}
    return argument.startswith("-") and bool(letters & set(argument[1:]))


def _git(arguments: tuple[str, ...]) -> Iterator[str]:
    """git has options before its trade that run programs, and trades that do."""
    before = list(takewhile(lambda argument: argument.startswith("-"), arguments))
    yield from (
        f"git {option.partition('=')[0]} changes how git works"
        for option in before
        if option not in GIT_PLAIN
    )
    if len(before) == len(arguments):
        return
    trade, *rest = arguments[len(before) :]
    if trade not in GIT_TRADES:
        yield f"what git {trade} does is not known"
    letters = frozenset(f"-{letter}" for letter in GIT_LETTERS.get(trade, ""))
    risky = GIT_OPTIONS | letters | GIT_WORDS.get(trade, frozenset())
    for argument in rest:
        if _is_one_of(argument, risky):
            yield f"git {trade} {argument.partition('=')[0]} can run or write something"
        if "::" in argument or argument[:1] in {"*", "?", "["}:
            yield f"what {argument} means to git is not known"


def inner(words: tuple[str, ...]) -> tuple[list[tuple[str, ...]], bool]:
    """What a wrapper may run, and whether that is certain: a word after an option may be its value."""
    found: list[tuple[str, ...]] = []
    certain = words[0] in WRAPPERS
    at = 2 if words[0] == "timeout" and len(words) > 1 and words[1][:1] != "-" else 1
    for index in range(at, len(words)):
        if words[index].startswith("-") or "=" in words[index]:
            certain = False
            continue
        found.append(words[index:])
        if not words[index - 1].startswith("-"):
            break
    return found, certain


def script(words: tuple[str, ...]) -> str:
    """The text that a shell or eval among these words would read as commands."""
    match words:
        case ("eval", *rest):
            return " ".join(rest)
        case (name, *rest) if name in SHELLS:
            following = [text for text in rest if not text.startswith("-")]
            return following[0] if following and len(following) < len(rest) else ""
        case _:
            return ""


def executed(words: tuple[str, ...]) -> tuple[str, ...]:
    """What `find -exec` and its like would run."""
    starts = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
    if words[0] not in {"find", "fd"}:
        return ()
    places = [index for index, word in enumerate(words) if word in starts]
    return words[places[0] + 1 :] if places else ()


def candidates(words: tuple[str, ...]) -> Iterator[str]:
    """The words that may name a file; also those glued to an option."""
    for word in words[1:]:
        if word.startswith("-") and "/" in word:
            yield word[word.index("/") :] if "=" not in word else word.partition("=")[2]
        elif word.startswith("-"):
            yield word.partition("=")[2]
        else:
            yield word
            yield word.partition("=")[2]
