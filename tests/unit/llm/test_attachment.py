"""Files beside a text."""

import pytest

from asyncagents.llm.model import Attachment
from asyncagents.llm.wire.attachment import (
    InlineFile,
    inline_file,
    is_remote,
    mime_of,
    placeholder_text,
    text_with_name,
)


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:image/png;base64,aGk=", "aGk="),
        ("data:;base64,aGk=", "aGk="),
        ("data:image/png;name=a.png;base64,aGk=", "aGk="),
        ("data:image/png;base64,aGk%3D", "aGk="),
        ("data:image/png,hi", "aGk="),
        ("data:image/png,h%69", "aGk="),
    ],
)
def test_the_bytes_of_a_data_url_are_read_in_each_of_its_spellings(url: str, data: str) -> None:
    assert inline_file(Attachment("image/png", url)) == InlineFile("image/png", data)


@pytest.mark.parametrize(
    "url", ["https://a.test/x.png", "file:///x.png", "data:image/png;base64", "x.png", ""]
)
def test_a_file_that_is_not_in_its_url_has_no_bytes(url: str) -> None:
    assert inline_file(Attachment("image/png", url)) is None


def test_a_mime_type_is_normalized_without_its_parameters() -> None:
    assert mime_of(Attachment("IMAGE/JPG", "")) == "image/jpeg"
    assert mime_of(Attachment("text/plain; charset=utf-8", "")) == "text/plain"


def test_text_is_read_with_its_name() -> None:
    assert text_with_name(Attachment("text/x-python", "data:,a%20=%201", "a.py")) == "a.py:\na = 1"
    assert (
        text_with_name(Attachment("application/json", "data:application/json;base64,e30=", "a.json"))
        == "a.json:\n{}"
    )


@pytest.mark.parametrize(
    ("mime", "url"),
    [
        ("text/plain", "data:;base64,/////w=="),
        ("text/plain", "data:;base64,a"),
        ("text/plain", "data:,"),
        ("text/plain", "https://a.test/x.txt"),
        ("application/zip", "data:;base64,aGk="),
    ],
)
def test_an_attachment_without_readable_text_yields_none(mime: str, url: str) -> None:
    assert text_with_name(Attachment(mime, url)) is None


def test_a_file_that_cannot_be_carried_is_named_without_its_content() -> None:
    video = Attachment("video/mp4", "data:video/mp4;base64,aGk=", "film.mp4")
    assert placeholder_text(video) == "[A file was attached that cannot be shown here: film.mp4 (video/mp4)]"
    remote = Attachment("video/mp4", "https://a.test/film.mp4")
    assert is_remote(remote)
    assert "at https://a.test/film.mp4" in placeholder_text(remote)
