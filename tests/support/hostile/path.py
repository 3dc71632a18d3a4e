"""Paths that lead where they should not: each is planted in a project, and named to every file tool."""

import os
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from tests.support.hostile.yard import Yard

Lies: TypeAlias = Literal["outside", "nowhere", "odd"]
"""Outside: it must ask. Nowhere: nothing is to be had. Odd: it is a place in the project after all."""


class Trap(Struct, frozen=True):
    path: Callable[[Yard], str]
    """Plants what it needs, and says how it is named."""
    lies: Lies = "outside"


def plain(path: str) -> Callable[[Yard], str]:
    """Nothing is to be planted; `{out}` and `{root}` are filled in."""
    return lambda place: path.replace("{out}", str(place.outside)).replace("{root}", str(place.root))


def link(name: str, target: str, path: str = "") -> Callable[[Yard], str]:
    """A link in the project, and perhaps a path through it."""

    def plant(place: Yard) -> str:
        at = place.root / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(plain(target)(place))
        return path or name

    return plant


def chain(length: int, target: str) -> Callable[[Yard], str]:
    def plant(place: Yard) -> str:
        for number in range(length):
            after = plain(target)(place) if number == length - 1 else f"chain{length}-{number + 1}"
            (place.root / f"chain{length}-{number}").symlink_to(after)
        return f"chain{length}-0"

    return plant


def loop(place: Yard) -> str:
    (place.root / "loop-a").symlink_to("loop-b")
    (place.root / "loop-b").symlink_to("loop-a")
    return "loop-a/secret.txt"


def fifo(place: Yard) -> str:
    os.mkfifo(place.root / "fifo")
    return "fifo"


def unix_socket(place: Yard) -> str:
    with socket.socket(socket.AF_UNIX) as sock:
        here = os.getcwd()
        os.chdir(place.root)  # a socket's name has little room
        try:
            sock.bind("socket")
        finally:
            os.chdir(here)
    return "socket"


def folder(name: str, path: str = "") -> Callable[[Yard], str]:
    def plant(place: Yard) -> str:
        (place.root / name).mkdir(parents=True)
        return path or name

    return plant


def denormal(place: Yard) -> str:
    """The composed name is a folder, the decomposed one a link out."""
    (place.root / unicodedata.normalize("NFC", "café")).mkdir()
    (place.root / unicodedata.normalize("NFD", "café")).symlink_to(place.outside)
    return unicodedata.normalize("NFD", "café") + "/secret.txt"


def sibling(place: Yard) -> str:
    """Its name begins as the project's does."""
    other = Path(f"{place.root}-other")
    other.mkdir()
    (other / "secret.txt").write_text(place.secret.read_text())
    return f"{other}/secret.txt"


TRAPS: dict[str, Trap] = {
    "an absolute path": Trap(plain("{out}/secret.txt")),
    "a folder outside": Trap(plain("{out}")),
    "a folder outside with slashes": Trap(plain("{out}///")),
    "dots": Trap(plain("../outside/secret.txt")),
    "dots after a folder": Trap(plain("src/../../outside/secret.txt")),
    "dots after what is missing": Trap(plain("missing/../../outside/secret.txt")),
    "dots after a file": Trap(plain("a.txt/../../outside/secret.txt")),
    "dots and slashes": Trap(plain(".//..//outside/./secret.txt")),
    "dots from the root": Trap(plain("{root}/../outside/secret.txt")),
    "the folder above": Trap(plain("..")),
    "the root folder": Trap(plain("/")),
    "two slashes first": Trap(plain("//etc/passwd")),
    "more dots than folders": Trap(plain("../" * 60 + "etc/passwd")),
    "home": Trap(plain("~")),
    "a file at home": Trap(plain("~/.profile")),
    "home and up": Trap(plain("~/../../etc/passwd")),
    "a neighbour of almost the same name": Trap(sibling),
    "a link to a file": Trap(link("f-link", "{out}/secret.txt")),
    "a link to a folder": Trap(link("d-link", "{out}", "d-link/secret.txt")),
    "a link to a folder, named alone": Trap(link("d-link2", "{out}")),
    "a link with a slash after it": Trap(link("d-link3", "{out}", "d-link3/")),
    "a link by a relative path": Trap(link("r-link", "../outside/secret.txt")),
    "a link deep inside": Trap(link("x/y/z/l", "../../../../outside", "x/y/z/l/secret.txt")),
    "up from a link": Trap(link("up", "{out}", "up/../outside/secret.txt")),
    "a link to the root": Trap(link("root", "/", "root/etc/passwd")),
    "a link to the folder above": Trap(link("above", "..", "above/outside/secret.txt")),
    "a link that comes back": Trap(link("back", "..", "back/project/../outside/secret.txt")),
    "a link to what is not there yet": Trap(link("dangling", "{out}/new.txt")),
    "a link to a folder that is not there yet": Trap(link("dangling2", "{out}/new", "dangling2/x.txt")),
    "a chain of two links": Trap(chain(2, "{out}/secret.txt")),
    "a chain of thirty links": Trap(chain(30, "{out}/secret.txt")),
    "a name with a newline": Trap(link("new\nline", "{out}", "new\nline/secret.txt")),
    "a name with a tab and a quote": Trap(link("t\t'\"q", "{out}", "t\t'\"q/secret.txt")),
    "a name with a backslash": Trap(link("b\\s", "{out}", "b\\s/secret.txt")),
    "a name like an option": Trap(link("--help", "{out}", "--help/secret.txt")),
    "a name like a wildcard": Trap(link("*", "{out}", "*/secret.txt")),
    "a name that turns the writing around": Trap(link("\u202egnp.exe", "{out}", "\u202egnp.exe/secret.txt")),
    "two names that look alike": Trap(denormal),
    "a link in another case": Trap(link("SRC", "{out}", "SRC/secret.txt")),
    "a link at .git": Trap(link("sub/.git", "{out}", "sub/.git/secret.txt")),
    "a link to /proc/self/root": Trap(link("pr", "/proc/self/root", "pr/etc/passwd")),
    "/proc/self/root": Trap(plain("/proc/self/root/etc/passwd")),
    "/proc/self/cwd": Trap(plain("/proc/self/cwd/pyproject.toml")),
    "/proc/self/environ": Trap(plain("/proc/self/environ")),
    "a link to /proc/self/environ": Trap(link("env", "/proc/self/environ")),
    "/proc/self/fd": Trap(plain("/proc/self/fd/0")),
    "/dev/fd": Trap(plain("/dev/fd/0")),
    "/dev/stdin": Trap(plain("/dev/stdin")),
    "a link to a device": Trap(link("zero", "/dev/zero")),
    "a device": Trap(plain("/dev/zero")),
    "a loop of links": Trap(loop, "nowhere"),
    "a link to itself": Trap(link("self", "self"), "nowhere"),
    "a chain of fifty links": Trap(chain(50, "{out}/secret.txt"), "nowhere"),
    "a fifo": Trap(fifo, "nowhere"),
    "a socket": Trap(unix_socket, "nowhere"),
    "a NUL": Trap(plain("a.txt\0/../../outside/secret.txt"), "nowhere"),
    "half a character": Trap(plain("\udcff/../../outside/secret.txt"), "nowhere"),
    "half a surrogate pair": Trap(plain("\ud800"), "nowhere"),
    "nothing at all": Trap(plain(""), "nowhere"),
    "a name of a thousand letters": Trap(plain("n" * 1000), "nowhere"),
    "a path of ten thousand folders": Trap(plain("d/" * 10_000 + "x"), "nowhere"),
    "an empty folder": Trap(folder("empty"), "odd"),
    "a tilde that is a name": Trap(folder("~x", "~x/new.txt"), "odd"),
    "dots that are a name": Trap(folder("...", ".../new.txt"), "odd"),
    "a wide full stop": Trap(plain("\uff0e\uff0e/outside/secret.txt"), "odd"),
    "percent signs": Trap(plain("%2e%2e/outside/secret.txt"), "odd"),
    "the other slash": Trap(plain("..\\outside\\secret.txt"), "odd"),
    "a link to a folder inside": Trap(link("inside", "src", "inside/new.txt"), "odd"),
    "a link to the project": Trap(link("me", "{root}", "me/me/me/src/new2.txt"), "odd"),
}
