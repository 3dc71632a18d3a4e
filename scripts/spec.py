"""Prints each promise of docs/requirements.md with its tests; refuses one of a done step that has none."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/requirements.md"
DONE_HEADING = "## Steps done"
ROW = re.compile(r"^\| ([A-Z]-\d\d) \|.*\| ([^|]+) \|$")
DONE_ITEM = re.compile(r"^- (.+)$")
MARKER = "pytest.mark.spec"
SOAK = "pytest.mark.soak"
# A test that does not have to pass proves nothing.
UNPROVEN = ("pytest.mark.skip", "pytest.mark.xfail")

Owner = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Requirement:
    """A promise: its id and the steps that own it, the first one first."""

    id: str
    steps: list[str]


@dataclass(frozen=True)
class Page:
    """What the requirements page says, as far as a machine needs it."""

    requirements: list[Requirement]
    done: list[str]


@dataclass
class Evidence:
    """Tests by the id they claim, and what was wrong with the claims."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    soak: set[str] = field(default_factory=set)
    """Tests that `make test` does not run; a promise needs one besides."""
    problems: list[str] = field(default_factory=list)


def read_page(text: str) -> Page:
    rows = (ROW.match(line) for line in text.splitlines())
    requirements = [Requirement(row[1], row[2].split(", ")) for row in rows if row]
    done_section = text.partition(f"\n{DONE_HEADING}\n")[2].partition("\n## ")[0]
    items = (DONE_ITEM.match(line) for line in done_section.splitlines())
    return Page(requirements=requirements, done=[item[1].strip("` ") for item in items if item])


def collect(root: Path) -> Evidence:
    evidence = Evidence()
    for path in sorted((root / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        _collect_file(tree, path.relative_to(root).as_posix(), evidence)
    return evidence


def _collect_file(tree: ast.Module, where: str, evidence: Evidence) -> None:
    astray = set(_markers(tree))
    for owner in ast.walk(tree):
        if isinstance(owner, Owner):
            found = [marker for decorator in owner.decorator_list for marker in _markers(decorator)]
            astray.difference_update(found)
            if not any(_name(decorator) in UNPROVEN for decorator in owner.decorator_list):
                _collect_owner(owner.name, found, where, evidence)
            if any(_name(decorator) == SOAK for decorator in owner.decorator_list):
                evidence.soak.add(f"{where}::{owner.name}")
    lines = sorted(marker.lineno for marker in astray)
    evidence.problems += [f"{where}:{line}: a spec marker decorates a test, nothing else" for line in lines]


def _markers(node: ast.AST) -> Iterator[ast.Call]:
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    return (call for call in calls if _name(call) == MARKER)


def _name(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _collect_owner(name: str, markers: list[ast.Call], where: str, evidence: Evidence) -> None:
    if markers and not name.lower().startswith("test"):
        evidence.problems.append(f"{where}::{name}: has a spec marker but is not a test")
        return
    for marker in markers:
        _collect_ids(marker, f"{where}::{name}", evidence)


def _collect_ids(marker: ast.Call, where: str, evidence: Evidence) -> None:
    for argument in marker.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            evidence.tests.setdefault(argument.value, []).append(where)
        else:
            evidence.problems.append(f"{where}: a spec marker takes ids as plain strings")


def find_problems(page: Page, evidence: Evidence) -> Iterator[str]:
    yield from evidence.problems
    yield from page_problems(page)
    known = {requirement.id for requirement in page.requirements}
    for unknown in sorted(evidence.tests.keys() - known):
        yield f"{unknown} is not in {PAGE}; named by {', '.join(evidence.tests[unknown])}"
    for requirement in page.requirements:
        done = [step for step in requirement.steps if step in page.done]
        if done and not set(evidence.tests.get(requirement.id, ())) - evidence.soak:
            yield f"{requirement.id} has no test outside of `make soak`, but its step {done[0]} is done"


def page_problems(page: Page) -> Iterator[str]:
    if not page.requirements:
        yield f"{PAGE} lists no requirement"
    ids = [requirement.id for requirement in page.requirements]
    for repeated in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"{repeated} stands in {PAGE} more than once"
    steps = {step for requirement in page.requirements for step in requirement.steps}
    for unknown in sorted(set(page.done) - steps):
        yield f"{unknown} is listed as done, but no requirement has that step"


def report(page: Page, evidence: Evidence) -> None:
    for requirement in page.requirements:
        tests = evidence.tests.get(requirement.id, [])
        print(f"{requirement.id}  {', '.join(requirement.steps):12}  {len(tests) or '-'}")
        for test in tests:
            print(f"      {test}{' (soak)' if test in evidence.soak else ''}")


def closing_line(page: Page, evidence: Evidence) -> str:
    proven = sum(requirement.id in evidence.tests for requirement in page.requirements)
    done = ", ".join(page.done) or "none"
    return f"spec: {proven} of {len(page.requirements)} promises have a test; steps done: {done}"


def main() -> int:
    page = read_page((ROOT / PAGE).read_text(encoding="utf-8"))
    evidence = collect(ROOT)
    problems = list(find_problems(page, evidence))
    report(page, evidence)
    for problem in problems:
        print(f"problem: {problem}")
    print(f"{closing_line(page, evidence)}; problems: {len(problems)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
