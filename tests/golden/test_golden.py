"""Wire, schemas, help and stored fields are as recorded: a renamed class or module changes none of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.record import (
    FILES,
    WIRES,
    database_schema,
    openapi,
    provider_requests,
    struct_fields,
)


def recorded(name: str) -> str:
    return FILES.joinpath(name).read_text(encoding="utf-8")


def test_the_openapi_document_is_as_recorded() -> None:
    assert openapi() == recorded("openapi.json")


def test_the_help_of_all_commands_is_as_recorded() -> None:
    # In a process of its own: click keeps the help option of a command that another test called alone.
    program = "from tests.golden.record import command_help; print(command_help(), end='')"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert shown.stdout == recorded("help.txt")


def test_stored_and_sent_structs_have_the_recorded_tags_and_fields() -> None:
    assert struct_fields() == recorded("structs.txt")


def test_the_database_schema_is_as_recorded(tmp_path: Path) -> None:
    assert database_schema(tmp_path) == recorded("sqlite.sql")


@pytest.mark.parametrize("wire", WIRES)
def test_requests_to_a_provider_are_as_recorded(tmp_path: Path, wire: str) -> None:
    assert provider_requests(tmp_path, wire) == recorded(f"requests_{wire}.json")
