"""Files that are sent with their content."""

from pathlib import Path

import pytest

from asyncagents.cli.exit import CliError
from asyncagents.cli.run.remote import MOST_BYTES, read_attachments
from asyncagents.llm.wire.attachment import decode_text

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def test_text_and_pictures_go_with_their_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("größer\n")
    (tmp_path / "b").write_bytes(PNG)
    text, picture = read_attachments([tmp_path / "a.txt", tmp_path / "b"])

    assert text.filename == "a.txt"
    assert text.mime == "text/plain"
    assert decode_text(text) == "größer\n"
    assert picture.filename == "b"
    assert picture.mime == "image/png"


def test_a_file_that_is_no_text_image_or_pdf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\0\xfe")
    with pytest.raises(CliError, match="neither text nor an image nor a PDF"):
        read_attachments([tmp_path / "a.bin"])


def test_files_over_the_total_limit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a" * (MOST_BYTES - 1))
    (tmp_path / "b").write_bytes(b"bb")
    assert len(read_attachments([tmp_path / "a"])) == 1
    with pytest.raises(CliError, match="b: files of more than 7 MiB"):
        read_attachments([tmp_path / "a", tmp_path / "b"])
