"""Refuses unclear words in src: bare participles, repeated class names, sentences without a subject."""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "asyncagents"
MAX_MODULES = 22

# Names that may stay, each with its reason.
ALLOWED_NAMES = {
    "Closed": "a public error; errors name the fact",
    "Damaged": "a public error; errors name the fact",
    "Unauthorized": "a public error, HTTP's own word",
    "unlimited": "an adjective: the limit of a body that has none",
}
ALLOWED_PACKAGES = {"store/verb": "the verbs are one state machine; store/verb/README.md is its map"}

VAGUE = re.compile(r"\b(whoever|nobody|somebody|anybody)\b", re.IGNORECASE)
IRREGULAR = """
    begun bought bound broken brought built caught chosen done drawn driven fallen fed felt forgotten found
    given gone grown heard held hidden kept known laid led left lent lost made meant met paid proven said
    seen sent shown sold sought spent spoken stood stuck sunk swept taken taught thought thrown told torn
    understood undone unknown unseen woken won worn written
"""
NOT_PARTICIPLES = "embed exceed feed need proceed seed shed speed succeed"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """One parsed file below the package."""

    path: str
    text: str
    tree: ast.Module


def read_sources(folder: Path) -> list[Source]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Source(path.relative_to(folder).as_posix(), text, ast.parse(text, str(path))))
    return found


def is_bare_participle(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name.strip("_"))
    if len(words) != 1:
        return False
    word = words[0].lower()
    return word in IRREGULAR.split() or (
        re.fullmatch(r"[a-z]{2,}ed", word) is not None and word not in NOT_PARTICIPLES
    )


def is_tagged(node: Definition) -> bool:
    """Tell whether a class is a state of a tagged union, which may be a participle."""
    return isinstance(node, ast.ClassDef) and any(each.arg == "tag" for each in node.keywords)


def check_participles(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, Definition) or node.name in ALLOWED_NAMES or is_tagged(node):
            continue
        if is_bare_participle(node.name):
            yield f"{source.path}:{node.lineno}: {node.name} is a bare participle: say what is done to what"


def check_sentences(source: Source) -> Iterator[str]:
    for line, text in [*_docstrings(source.tree), *_comments(source.text)]:
        if hit := VAGUE.search(text):
            yield f"{source.path}:{line}: {hit[0]!r} in a sentence: name the process, caller or row"


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def check_class_names(sources: list[Source]) -> Iterator[str]:
    homes: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(f"{source.path}:{node.lineno}")
    for name, places in sorted(homes.items()):
        if len(places) > 1:
            yield f"class {name} is defined {len(places)} times: {', '.join(places)}"


def check_packages(sources: list[Source]) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        counts[folder] += name != "__init__.py"
    for folder, count in sorted(counts.items()):
        if count > MAX_MODULES and folder not in ALLOWED_PACKAGES:
            yield f"{folder}: {count} modules, the limit is {MAX_MODULES}: add a shelf"


def find_problems(folder: Path) -> list[str]:
    sources = read_sources(folder)
    each = [
        problem for source in sources for problem in (*check_participles(source), *check_sentences(source))
    ]
    return [*each, *check_class_names(sources), *check_packages(sources)]


def main() -> int:
    problems = find_problems(SOURCE)
    for problem in problems:
        print(f"problem: {problem}")
    print(f"words: {len(problems)} problems" if problems else "words: plain")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
