"""What a server says about itself on stderr."""

import logging
from datetime import datetime

import pytest

from asyncagents.cli.serve.serve import StderrLogHandler
from asyncagents.errors import StoreError


def test_a_server_logs_store_errors_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("tests.cli.serve_log")
    log.propagate, log.handlers = False, [StderrLogHandler()]
    log.info("too quiet")
    for _ in range(2):
        log.warning("a request could not be answered", exc_info=StoreError("the disk is full"))
    log.warning("%s is odd", "\x1b[2Jthis")
    assert capsys.readouterr().err.splitlines() == [
        "warning: a request could not be answered: StoreError: the disk is full",
        "warning: a request could not be answered: StoreError: the disk is full",
        "warning: [2Jthis is odd",
    ]


def test_an_unexpected_error_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("tests.cli.serve_log.bug")
    log.propagate, log.handlers = False, [StderrLogHandler()]
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("a request failed")
    told = capsys.readouterr().err
    assert told.startswith("error: a request failed: KeyError: 'gone'\nTraceback (most recent call last):\n")
    assert "test_serve_log.py" in told


def test_a_log_with_times_begins_each_record_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("tests.cli.serve_log.timed")
    log.propagate, log.handlers = False, [StderrLogHandler(timed=True)]
    log.warning("the disk is slow")
    time, _, rest = capsys.readouterr().err.partition(" ")
    assert datetime.fromisoformat(time).tzinfo is not None
    assert rest == "warning: the disk is slow\n"
