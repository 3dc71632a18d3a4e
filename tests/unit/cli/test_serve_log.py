"""What a server says about itself on stderr."""

import logging

import pytest

from asyncagents.cli.serve.serve import StderrLogHandler
from asyncagents.errors import StoreError


def test_a_server_logs_what_the_store_complains_of_and_each_time(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_bug_is_logged_with_the_place_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("tests.cli.serve_log.bug")
    log.propagate, log.handlers = False, [StderrLogHandler()]
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("a request failed")
    told = capsys.readouterr().err
    assert told.startswith("error: a request failed: KeyError: 'gone'\nTraceback (most recent call last):\n")
    assert "test_serve_log.py" in told
