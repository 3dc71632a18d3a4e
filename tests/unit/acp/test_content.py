"""Blocks of a prompt become text and files."""

import pytest

from asyncagents.acp.content import local_path, read_blocks
from asyncagents.acp.shape import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from asyncagents.domain.http_shapes import SentFile
from asyncagents.errors import InvalidInput


def test_texts_are_joined_and_links_to_other_places_stay_texts() -> None:
    typed = read_blocks((TextContent(text="Look at"), ResourceLink(uri="https://example.org/a", name="a")))

    assert typed.text == "Look at\n[a](https://example.org/a)"
    assert typed.files == ()


def test_a_link_to_a_file_attaches_the_file() -> None:
    typed = read_blocks((ResourceLink(uri="file:///p/a%20b.txt", name="a b.txt"),))

    assert typed.files == ("/p/a b.txt",)


def test_an_image_is_a_data_url() -> None:
    (file,) = read_blocks((ImageContent(data="AAAA", mime_type="image/png"),)).files

    assert isinstance(file, SentFile)
    assert file.url == "data:image/png;base64,AAAA"


def test_an_image_that_is_not_base64_is_refused() -> None:
    with pytest.raises(InvalidInput, match="base64"):
        read_blocks((ImageContent(data="not base64!", mime_type="image/png"),))


@pytest.mark.parametrize(
    "block",
    [
        ResourceLink(uri="http://[wrong", name="a"),
        EmbeddedResource(resource=ResourceContents(uri="http://[wrong", text="a")),
    ],
)
def test_a_wrong_uri_is_refused_with_the_uri(block: ResourceLink | EmbeddedResource) -> None:
    with pytest.raises(InvalidInput, match=r"http://\[wrong"):
        read_blocks((block,))


def test_audio_is_refused() -> None:
    with pytest.raises(InvalidInput, match="audio"):
        read_blocks((AudioContent(data="", mime_type="audio/wav"),))


@pytest.mark.parametrize("uri", ["file://server/share", "https://x/y", "attachment:a"])
def test_only_files_of_this_machine_have_a_local_path(uri: str) -> None:
    assert local_path(uri) is None
