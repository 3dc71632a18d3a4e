"""Find which words of a program that runs other programs are the command that it runs."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence

from asyncagents.tools.shell.glob import resolve_links
from asyncagents.tools.shell.word import Words, words_of

# Programs that run their arguments or change what later words mean: a rule for their name is not enough.
OPAQUE = words_of(
    """
    . aa-exec abduco alias ash at bash batch bg bind builtin busybox bwrap capsh catchsegv cgexec chpst
    choom chroot chrt caffeinate chronic compgen complete coproc cpulimit csh daemonize dash dbus-launch
    dbus-run-session declare disown doas dtach dumb-init eatmydata ed elvish emacs emacsclient enable entr
    env envdir envuidgid eval ex exec expect export fakechroot fakeroot faketime fc fg firejail
    firejail-ui fish flock gdb gdbserver genv getopts gnice gnohup gosu gstdbuf gtime gtimeout gxargs hash
    history hyperfine i386 i486 i586 i686 ifne ionice jobs keychain ksh lckdo ld.so let linux32 linux64
    lksh lldb local logsave ltrace mapfile mispipe mksh ncat newgrp nohup nsenter nu numactl nvim oksh
    parallel pee perf pkexec popd posh prename prlimit proot proxychains proxychains4 pushd pwsh rbash
    read readarray readonly rename rksh rlwrap rr rsh run-parts run0 runcon runuser rview rvim rzsh
    s6-setuidgid sandbox-exec screen script scriptreplay select set setarch setpriv setsid setuidgid sg sh
    shopt socat softlimit source ssh ssh-agent sshpass start-stop-daemon stdbuf strace su su-exec sudo
    systemd-cat systemd-inhibit systemd-nspawn systemd-run systemd-socket-activate taskset tcsh tini tmux
    torify torsocks toybox trap trickle tsocks typeset unalias uname26 unbuffer unset unshare valgrind vi
    view vim vimdiff wait watch watchexec x86_64 xargs xonsh xvfb-run yash zsh zargs
    """
)
_VERSIONED = re.compile(
    r"(ash|bash|csh|dash|fish|gdb|ksh|lldb|mksh|nvim|sh|tcsh|vim?|zsh)"
    r"([.-]?(basic|gtk\d?|multiarch|nox|static|tiny|\d[\d.]*))+"
)
_LINKER = re.compile(r"ld(-linux|-musl|64|32)?[\w.-]*\.so(\.\d+)*")
# Programs that run the rest of their words as a command; that command is judged as well.
WRAPPERS = words_of("command nice time timeout")
# The least and the greatest number of words before the command.
_WORDS_BEFORE_COMMAND = {
    **dict.fromkeys(
        words_of(
            """
            chroot chrt envdir envuidgid faketime flock gdbserver gosu perf s6-setuidgid setuidgid sg ssh
            su-exec taskset timeout
            """
        ),
        (1, 1),
    ),
    **dict.fromkeys(words_of("cpulimit logsave lckdo ncat rsh runuser script setarch socat su"), (0, 1)),
    **dict.fromkeys(words_of("at bwrap screen tmux"), (0, 6)),
}
MOST_WORDS = 500
"""The inner command of a wrapper with more words is not looked for."""
MOST_STARTS = 16
_SHELL_TEXT = re.compile(r"[^\w./:=@%+,-]")
# Folders of the system's programs: a full path there means the same as the program's name.
_SYSTEM_PATH = re.compile(r"^/(usr/(local/)?)?s?bin/([^/]+)$")
_PYTHON = re.compile(r"^(python|pypy)[\d.]*$")


def name_program(spelling: str, places: Sequence[str]) -> str:
    """Return the name by which rules know a program; a path that leads to no program of `PATH` is kept."""
    name = _name_by_path(spelling, places) if "/" in spelling else spelling
    if _LINKER.fullmatch(os.path.basename(name)):
        return "ld.so"
    versioned = _VERSIONED.fullmatch(name)
    return versioned.group(1) if versioned else name


def _name_by_path(spelling: str, places: Sequence[str]) -> str:
    if ".." not in spelling.split("/") and (known := _SYSTEM_PATH.match(_normalise_path(spelling))):
        return known.group(3)
    for place in places:
        path = os.path.join(place, spelling)
        real = resolve_links(path)
        if (known := _SYSTEM_PATH.match(real)) and not _is_virtual(path, known.group(3)):
            return known.group(3)
        name = os.path.basename(spelling)
        if (found := shutil.which(name)) and resolve_links(found) == real and not _is_virtual(path, name):
            return name
    return spelling


def _normalise_path(path: str) -> str:
    return re.sub(r"^/+", "/", os.path.normpath(path))


def _is_virtual(path: str, real: str) -> bool:
    """Return whether a path is the interpreter of a virtual environment, which rules know by its path."""
    above = os.path.dirname(os.path.dirname(path))
    names = (real, os.path.basename(path))
    return all(map(_PYTHON.match, names)) and os.path.isfile(os.path.join(above, "pyvenv.cfg"))


def find_starts(
    words: Words, before: tuple[int, int], plain: frozenset[str] = frozenset(), *, may_assign: bool = True
) -> list[int]:
    """Return the indexes at which a wrapper's command may start: a word after an option may be its value.

    `before`: the least and the greatest number of words before the command. `plain`: options without a value.
    `may_assign`: whether a word with a `=` sets a variable.
    """
    found: set[int] = set()
    looked: set[tuple[int, int]] = set()
    todo = [(1, 0)]
    while todo:
        at, skipped = todo.pop()
        if at >= len(words) or (at, skipped) in looked:
            continue
        looked.add((at, skipped))
        word = words[at]
        if word == "--" or word in plain or (may_assign and not word.startswith("-") and "=" in word):
            todo.append((at + 1, skipped))
        elif word.startswith("-"):
            todo += [(at + 1, skipped), (at + 2, skipped)]
        else:
            found |= {at} if skipped >= before[0] else set()
            todo += [(at + 1, skipped + 1)] if skipped < before[1] else []
    return sorted(found)[:MOST_STARTS]


def find_inner_commands(words: Words) -> tuple[list[Words], bool]:
    """Return the commands that a wrapper may run, and whether there is no doubt which."""
    before = _WORDS_BEFORE_COMMAND.get(words[0], (0, 0))
    starts = find_starts(words, before)
    return [words[start:] for start in starts], words[0] in WRAPPERS and starts == [1 + before[0]]


def find_scripts(words: Words) -> Iterator[str]:
    """Yield the arguments of a wrapper that a shell may run as commands."""
    if words[0] == "eval":
        yield " ".join(words[1:])
        return
    for start in find_starts(words, _WORDS_BEFORE_COMMAND.get(words[0], (0, 0))):
        if _SHELL_TEXT.search(words[start]):
            yield words[start]
    for word in words[1:]:
        if word.startswith("--") and _SHELL_TEXT.search(word):
            yield word.partition("=")[2]
        elif word.startswith("-") and _SHELL_TEXT.search(word):
            yield from (word[start:] for start in range(2, min(5, len(word))))
        elif words[0] == "socat" and ":" in word:
            yield word.partition(":")[2]


def find_exec_commands(words: Words) -> Iterator[Words]:
    """Yield the commands that `find -exec` and similar options would run."""
    starts = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
    if words[0] in {"find", "fd", "fdfind"}:
        places = [index for index, word in enumerate(words) if word in starts]
        yield from (words[place + 1 :] for place in places[:MOST_STARTS] if words[place + 1 :])
