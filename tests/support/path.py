"""Folders of the repository that tests read from, or start programs in."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
DOCS = ROOT / "docs"
