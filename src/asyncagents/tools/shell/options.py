"""Options by which a program runs a program, or writes or reads files, beyond what its name says."""

from asyncagents.tools.shell.word import Word, compile_pattern, has_wildcard, words_of

# Options that run a program or write a file.
RUNNING_OPTIONS: dict[str, frozenset[str]] = {
    "bat": frozenset({"--pager"}),
    "curl": words_of(
        """
        -c -d -D -E -F -K -o -O -T --alt-svc --cert --config --cookie-jar --data --data-ascii --data-binary
        --data-raw --data-urlencode --dump-header --etag-save --form --hsts --key --libcurl --netrc-file
        --output --output-dir --remote-name --remote-name-all --ssl-sessions --stderr --trace --trace-ascii
        --upload-file --url-query --variable
        """
    ),
    "csplit": frozenset(),
    "date": frozenset({"-s", "--set"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch", "-L", "--follow"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch", "-L", "--follow"}),
    "file": frozenset({"-C", "--compile", "-f", "--files-from"}),
    "find": words_of(
        "-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir -files0-from -L -follow"
    ),
    "install": frozenset({"-s", "--strip", "--strip-program"}),
    "less": words_of("-o -O -k --cmd --log-file --LOG-FILE --lesskey-content --lesskey-file --lesskey-src"),
    "make": frozenset({"-C", "--directory", "-E", "--eval", "-f", "--file", "--makefile", "-I"}),
    "man": frozenset({"-P", "--pager", "-H", "--html", "-C", "--config-file"}),
    "rg": frozenset({"--pre", "--hostname-bin", "-L", "--follow"}),
    "rsync": words_of("-e --rsh --rsync-path --files-from --log-file --write-batch --copy-links -L"),
    "scp": frozenset({"-F", "-i", "-J", "-o", "-S", "-D", "-r"}),
    "shuf": frozenset({"-o", "--output"}),
    "sort": frozenset({"-o", "--output", "--compress-program", "-T", "--files0-from"}),
    "split": frozenset({"--filter"}),
    "tar": words_of(
        """
        -I -F -T -h -P -g --use-compress-program --to-command --checkpoint-action --rsh-command --info-script
        --new-volume-script --rmt-command --files-from --dereference --absolute-names --index-file
        --listed-incremental --volno-file --keep-directory-symlink
        """
    ),
    "tree": frozenset({"-o", "-l", "-R", "--fromfile"}),
    "wget": words_of(
        """
        -a -e -i -o -O -P --append-output --body-file --config --execute --input-file --load-cookies
        --output-document --output-file --post-file --rejected-log --save-cookies --use-askpass --warc-file
        --warc-dedup --warc-tempdir --hsts-file
        """
    ),
    "yq": frozenset({"-i", "--inplace", "-s", "--split-exp", "--from-file"}),
    "zip": words_of(
        """
        -T -TT --unzip-command --test -r -R --recurse-paths -@ --names-stdin -O --output-file -lf
        --logfile-path
        """
    ),
}
# Options that follow links, evaluate a word, or read a file that no word names.
_READING_OPTIONS: dict[str, frozenset[str]] = {
    "chgrp": frozenset({"-L", "-H"}),
    "chown": frozenset({"-L", "-H"}),
    "cp": frozenset({"-L", "--dereference", "-H"}),
    "diff": frozenset({"-r", "--recursive"}),
    "du": frozenset({"-L", "--dereference", "-D", "-H", "--dereference-args", "--files0-from"}),
    "egrep": frozenset({"-R", "--dereference-recursive"}),
    "fgrep": frozenset({"-R", "--dereference-recursive"}),
    "grep": frozenset({"-R", "--dereference-recursive"}),
    "jq": frozenset({"-f", "--from-file", "-L", "--library-path"}),
    "ls": frozenset({"-L", "--dereference"}),
    "printf": frozenset({"-v"}),
    "test": frozenset({"-v"}),
    "wc": frozenset({"--files0-from"}),
}
RISKY_OPTIONS = {**RUNNING_OPTIONS, **_READING_OPTIONS}
# Programs for which a file name that begins with a dash would be an option that runs or writes.
_DASH_SENSITIVE = words_of("chmod chown git printf sed test") | RUNNING_OPTIONS.keys() - {"find"}
# Programs whose effect depends on the number of words, or on any word with a `=`.
_COUNT_SENSITIVE = words_of("dd make uniq xxd")
# Programs that take no options after `--`.
_DOUBLE_DASH_PROGRAMS = words_of(
    """
    bat cat chgrp chmod chown cmp cp cut date diff du egrep fgrep file git grep head install less ln ls mkdir
    mv rg rm rmdir rsync scp sed shuf sort split stat tac tail touch tree uniq wc wget
    """
)


def matches_option(argument: str, options: frozenset[str]) -> bool:
    """Return whether an argument is one of the options: abbreviated, combined, or with its value attached."""
    if argument in options:
        return True
    if argument.startswith("--"):
        name = argument.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in options)
    letters = {option[1] for option in options if len(option) == 2}
    return argument.startswith("-") and bool(letters & set(argument[1:]))


def before_double_dash(name: str, arguments: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments before `--`; a `--` after an option may be its value and does not count."""
    if name in _DOUBLE_DASH_PROGRAMS:
        for at, argument in enumerate(arguments):
            if argument == "--" and (at == 0 or not arguments[at - 1].startswith("-")):
                return arguments[:at]
    return arguments


def may_become_option(name: str, argument: Word) -> bool:
    """Return whether the file names that replace a pattern may be an option that matters."""
    if not has_wildcard(argument):
        return False
    if argument.startswith("-"):
        option, value, _ = argument.shape.partition("=")
        return not (value and option.startswith("--") and not has_wildcard(Word(option)))
    if name == "find":
        return any(map(compile_pattern(argument).fullmatch, RISKY_OPTIONS["find"]))
    return name in _COUNT_SENSITIVE or (name in _DASH_SENSITIVE and argument.shape[0] in "*?[")
