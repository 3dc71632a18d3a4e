"""The program that runs one search of files, with limits on memory and CPU time and a low priority."""

import resource
import sys
from contextlib import suppress
from typing import TypeAlias, assert_never

import msgspec

from asyncagents.tools.search.grep import GrepResult, GrepSearch, search_lines
from asyncagents.tools.search.list_tree import ListedTree, TreeListing, list_tree
from asyncagents.tools.search.low_priority import lower_priority
from asyncagents.tools.search.name_search import FoundNames, NameSearch, find_names
from asyncagents.tools.search.parallel import default_workers

MOST_MEMORY = 4 * 1024**3
MOST_CPU_SECONDS = 120

AnySearch: TypeAlias = GrepSearch | NameSearch | TreeListing


def main() -> None:
    """Run the search given by the last argument (JSON in hexadecimal); write its result to stdout as JSON."""
    for limit, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, MOST_CPU_SECONDS)):
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))
    lower_priority()
    job = msgspec.json.decode(bytes.fromhex(sys.argv[-1]), type=AnySearch)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(_run_search(job)) + b"\n")


def _run_search(job: AnySearch) -> GrepResult | FoundNames | ListedTree:
    match job:
        case GrepSearch():
            return search_lines(job, default_workers())
        case NameSearch():
            return find_names(job)
        case TreeListing():
            return list_tree(job)
        case _:
            assert_never(job)
