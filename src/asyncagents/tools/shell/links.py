"""Find lines that create or move files and then read them: a link may lead elsewhere by then."""

import re
from collections.abc import Iterator, Sequence

from asyncagents.tools.shell import git as shell_git
from asyncagents.tools.shell.command import PATHS, find_file_arguments
from asyncagents.tools.shell.glob import BoundedDisk, join_path
from asyncagents.tools.shell.word import Words, has_wildcard, words_of

# Programs that write the files that an archive or a patch names.
_UNPACKING = words_of("ar bsdtar dpkg dpkg-deb gtar jar patch star svn unar unrar unsquashfs unzip")
# Programs whose result contains links only if their source does.
_COPYING = words_of("cp install mv rsync scp")
_LINKING = words_of("link ln")
_CHANGING = _COPYING | _LINKING | words_of("dd mkdir mktemp rm rmdir tee touch truncate unlink")
_LISTING = words_of("-l -p -t -v -Z")
_DIFFING = words_of("colordiff delta diff icdiff sdiff")
_READING = PATHS | words_of(
    """
    b2sum base32 basenc batcat bzcat bzgrep bzless cksum col colrm hd iconv join look lzcat pr ptx rev
    sha224sum sha384sum sha512sum tsort ul unexpand xzcat xzgrep xzless yq zcmp zdiff zgrep zless zmore
    zstdcat
    """
)
_TARGET = re.compile(r"-[^-]*t|--t")
# The name that a copy gets, or may get, is not in the word or begins with a dash.
_ODD_NAME = re.compile(r"(^|/)(-[^/]*|\.{0,2})$")


class NameChanges:
    """What the commands of one line so far may have changed: names, links, names with a dash."""

    def __init__(self, disk: BoundedDisk) -> None:
        self._disk = disk
        self._changes_files = False
        self._makes_links = False
        self._makes_dash_names = False

    def find_dangers(self, words: Words, places: Sequence[str]) -> Iterator[str]:
        """Yield why a command may read other files than its words name, then record what it creates."""
        if _reads_files(words) and self._makes_links:
            yield "it makes or moves files and then reads some, which may be links by then"
        elif _reads_files(words) and self._changes_files and self._follows_link(words, places):
            yield "it changes files and then follows a link, which may lead elsewhere by then"
        if self._makes_dash_names and any(word.shape[:1] in {"*", "?", "["} for word in words[1:]):
            yield "it makes files whose names may be options to what follows"
        if words[0] in _DIFFING and any(map(self._disk.is_folder, self._find_paths(words, places))):
            yield f"{words[0]} of folders follows the links in them"
        self._record_changes(words, places)

    def _follows_link(self, words: Words, places: Sequence[str]) -> bool:
        return any(
            self._disk.passes_link(path, place)
            for place in places
            for path in self._find_paths(words, [place])
        )

    def _record_changes(self, words: Words, places: Sequence[str]) -> None:
        unpacks = _unpacks_files(words)
        sources = self._find_paths(_find_sources(words), places) if words[0] in _COPYING else ()
        copies_links = any(map(self._disk.has_link, sources))
        self._makes_links = self._makes_links or unpacks or copies_links or words[0] in _LINKING
        self._changes_files = self._changes_files or unpacks or words[0] in _CHANGING
        dashes = words[0] in _CHANGING and ("--" in words or any(map(_is_odd_name, words[1:])))
        self._makes_dash_names = self._makes_dash_names or unpacks or dashes

    def _find_paths(self, words: Words, places: Sequence[str]) -> Iterator[str]:
        for place in places:
            for word in filter(None, find_file_arguments(words)):
                path = join_path(place, word)
                yield from self._disk.find_matches(path) if has_wildcard(path) else (str(path),)


def _find_sources(words: Words) -> Words:
    """Drop the destination of a copy, if it is the last word."""
    named = any(_TARGET.match(word) for word in words)
    return words if named or words[-1].startswith("-") else words[:-1]


def _reads_files(words: Words) -> bool:
    """Return whether a command reads the files that its words name."""
    if words[0] == "git":
        return shell_git.reads_file(words)
    return words[0] in _READING and any(find_file_arguments(words))


def _unpacks_files(words: Words) -> bool:
    """Return whether a command creates files that its words do not name."""
    match words[0]:
        case "git":
            return shell_git.changes_files(words)
        case "tar":
            short = [word for at, word in enumerate(words) if at == 1 or re.match(r"-[^-]", word)]
            long = [word for word in words if len(word) > len("--ex") and "--extract".startswith(word)]
            return bool(long) or any("x" in word for word in short) or "--get" in words
        case name:
            return name in _UNPACKING and _LISTING.isdisjoint(words)


def _is_odd_name(word: str) -> bool:
    return not word.startswith("-") and bool(_ODD_NAME.search(word) or "*" in word or "?" in word)
