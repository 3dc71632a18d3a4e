"""A home folder of its own for a test, whose configuration has providers with a secret key."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.git import commit_repository

SECRET_KEY = "sk-this-key-must-never-be-told"
PROVIDERS: dict[str, Any] = {
    "enabled_providers": ["fake"],
    "model": "fake/fake",
    "provider": {
        "fake": {
            "name": "Fake",
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "baseURL": "http://127.0.0.1:9/v1",
                "apiKey": SECRET_KEY,
                "headers": {"X-Door": SECRET_KEY},
                "secret": SECRET_KEY,
            },
            "models": {
                "fake": {
                    "name": "Fake model",
                    "tool_call": True,
                    "cost": {"input": 1, "output": 2},
                    "limit": {"context": 200_000, "output": 8_192},
                    "headers": {"X-Door": SECRET_KEY},
                    "options": {"token": SECRET_KEY, "effort": "low"},
                }
            },
        }
    },
}
SKILL = "---\nname: tidy\ndescription: Tidies up.\n---\nPut things away.\n"


def make_home(tmp_path: Path, patch: pytest.MonkeyPatch, config: Mapping[str, Any] = PROVIDERS) -> Path:
    """Make a home with nothing in it but this configuration, and let the process use it."""
    home = tmp_path / "home"
    folder = home / ".config" / "asyncagents"
    folder.mkdir(parents=True)
    (folder / "asyncagents.json").write_text(json.dumps(config))
    for name in [*os.environ]:
        if name.startswith(("XDG_", "ASYNCAGENTS_", "OPENCODE_", "GIT_")) or name.endswith("_API_KEY"):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    return home


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project under git, of a user whose home holds the providers."""
    make_home(tmp_path, monkeypatch)
    root = tmp_path / "project"
    commit_repository(root, {"src/a.py": 'def hello():\n    return "hello world"\n', ".gitignore": "*.log\n"})
    return root
