"""A page turned into markdown in a process of its own, which can be ended.

It begins at `main`, which `read_as_markdown` starts; a page that takes for ever, or all the memory, ends
with it.
"""

import os
import resource
import sys
from contextlib import suppress

import msgspec
from msgspec import Struct

from asyncagents.domain.text import whole
from asyncagents.tools.markdown import Markdown, to_markdown

MOST_MEMORY = 512 * 1024**2
MOST_CPU_SECONDS = 3
NICE = 5
_LIMITS = (
    (resource.RLIMIT_AS, MOST_MEMORY),
    (resource.RLIMIT_CPU, MOST_CPU_SECONDS),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
)


class PageToRead(Struct, frozen=True):
    html: str
    base: str
    most: int
    """So many characters of the markdown are wanted."""


def main() -> None:
    """Answer on standard output what standard input asks, both JSON."""
    os.nice(NICE)
    for limit, most in _LIMITS:
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))
    page = msgspec.json.decode(sys.stdin.buffer.read(), type=PageToRead)
    sys.stdout.buffer.write(msgspec.json.encode(read_page(page)))


def read_page(page: PageToRead) -> Markdown:
    read = to_markdown(page.html, base=page.base)
    return Markdown(whole(read.text[: page.most]), cut=read.cut or len(read.text) > page.most)
