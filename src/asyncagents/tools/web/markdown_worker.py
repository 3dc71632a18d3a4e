"""The program that converts a page to markdown, with limits on memory and CPU time.

`read_as_markdown` starts it at `main`; a page that takes too long or too much memory ends only this process.
"""

import os
import resource
import sys
from contextlib import suppress

import msgspec
from msgspec import Struct

from asyncagents.domain.text import replace_surrogates
from asyncagents.tools.web.markdown import Markdown, to_markdown

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
    """Most characters of markdown to return."""


def main() -> None:
    """Read a `PageToRead` from standard input and write a `Markdown` to standard output, both as JSON."""
    os.nice(NICE)
    for limit, most in _LIMITS:
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))
    page = msgspec.json.decode(sys.stdin.buffer.read(), type=PageToRead)
    sys.stdout.buffer.write(msgspec.json.encode(read_page(page)))


def read_page(page: PageToRead) -> Markdown:
    read = to_markdown(page.html, base=page.base)
    return Markdown(replace_surrogates(read.text[: page.most]), cut=read.cut or len(read.text) > page.most)
