"""Every piece of Python that a page shows is typed, all of them at once: a type checker starts slowly."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = {"commands.md", "mcp.md"}
"""Pages whose pieces are lines out of a program; their own tests run them."""


@pytest.mark.spec("X-07")
def test_python_code_of_the_pages_passes_mypy(tmp_path: Path) -> None:
    files = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        codes = re.findall(
            r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, code in enumerate(codes if page.name not in SNIPPETS else ()):
            file = tmp_path / f"{page.stem.replace('-', '_').lower()}_{number}.py"
            file.write_text(code, encoding="utf-8")
            files.append(str(file))
    command = [sys.executable, "-m", "mypy", "--strict", "--scripts-are-modules", *files]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110, check=False)
    assert ran.returncode == 0, ran.stdout
