import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from asyncagents.cli.main import main
from asyncagents.cli.terminal.screen import ScreenLogHandler
from tests.support.environment import ConfigDesk

FOREIGN = ("XDG_", "ASYNCAGENTS_", "OPENCODE_")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigDesk:
    """A home and a project, and nothing of the caller's own."""
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name.endswith(("_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    desk = ConfigDesk(tmp_path)
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("ASYNCAGENTS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(desk.project)
    return desk


@pytest.fixture
def invoke(desk: ConfigDesk) -> Iterator[Callable[..., Result]]:
    """The whole command line, in this process; afterwards nothing of it listens to what others log."""

    def run(*words: str, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(main, words, input=stdin, prog_name="asyncagents")

    yield run
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, ScreenLogHandler)]
