"""Files beside a result: which are taken, how they are weighed, and where only their names are told."""

import base64
import struct

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    Completed,
    Failed,
    Settled,
    render,
)
from asyncagents.domain.call.late_result import result_text
from asyncagents.domain.call.result_file import ResultFile, file_problem, fit_files, image_size
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import ToolCompleted
from asyncagents.domain.conversation.transcript import Transcript, transcript
from asyncagents.domain.id import PartId
from asyncagents.domain.window import IMAGE_TOKENS, estimate_output
from asyncagents.engine.call.result_check import check_outcome
from asyncagents.engine.model_input import CLEARED, ModelInput
from asyncagents.engine.step.digest import digest
from asyncagents.engine.tool import WithFacts
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import Attachment, ChatRequest, ToolTurn
from asyncagents.telemetry.content import request_attributes
from tests.support.domain.state import call, step
from tests.support.mcp.server import DOT

PNG = base64.b64decode(DOT)
FILE = ResultFile.from_bytes(PNG, "dot.png")
DONE = call(Settled(Completed("[a dot]", files=(FILE,)), 9))


def png(width: int, height: int) -> bytes:
    return PNG[:16] + struct.pack(">II", width, height) + PNG[24:]


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (png(640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 3, 4), (3, 4)),
        (b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x0b\x08" + struct.pack(">HH", 30, 20), (20, 30)),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 7, 9), (7, 9)),
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + struct.pack("<I", 6 | 8 << 14), (7, 9)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x06\0\0\x08\0\0", (7, 9)),
        (b"\xff\xd8\xff\xe0\0\x04ab", None),
        (b"RIFF\0\0\0\0WEBP", None),
        (b"GIF8", None),
        (b"text", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_bytes(data: bytes, frame: tuple[int, int] | None) -> None:
    assert image_size(data) == frame


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(0, 1), "the image is cut short or broken"),
        (png(9000, 1), "a side of it has more than 8000 pixels"),
        (PNG[:40], "the image is cut short or broken"),
        (b"%PDF-1.7\n", "the document is cut short or broken"),
        (b"%PDF-1.7\n" + bytes(600_000) + b"%%EOF", "it is larger than 500000 bytes"),
        (b"%PDF-1.7\n%%EOF\n", None),
        (PNG, None),
    ],
)
def test_a_broken_or_too_large_file_is_reported_with_its_problem(data: bytes, why: str | None) -> None:
    assert file_problem(data) == why


def test_only_bytes_that_can_be_shown_make_a_file() -> None:
    assert ResultFile("image/png", f"data:image/png;base64,{DOT}", "dot.png") == FILE
    with pytest.raises(InvalidInput, match=r"notes\.txt cannot be shown to a model"):
        ResultFile.from_bytes(b"words", "notes.txt")


def test_files_that_do_not_fit_are_named_in_the_output() -> None:
    odd = ResultFile("image/png", "https://example.com/a.png", "a.png")
    done = check_outcome(Completed("Two.", files=(odd, FILE)))
    words = "Two.\n[a.png (image/png) is not shown here: its base64 is broken]"
    assert done == Completed(words, files=(FILE,))
    assert check_outcome(WithFacts(Completed("", files=(odd,)), ())) == WithFacts(Completed(words[5:]), ())
    big = ResultFile.from_bytes(PNG[:-12] + bytes(3_900_000) + PNG[-12:])
    _, kept = fit_files("", (big, big, big))
    assert len(kept) == 2


def test_a_part_has_the_files_of_its_call_each_time_alike() -> None:
    state = render(DONE).state
    assert isinstance(state, ToolCompleted)
    assert state.attachments is not None
    assert [(each.mime, each.url, each.filename) for each in state.attachments] == [
        ("image/png", FILE.url, "dot.png")
    ]
    assert state.attachments[0].id == f"{DONE.part_id}1"
    assert render(DONE) == render(DONE)
    plain = render(call(Settled(Completed("x"), 9))).state
    assert isinstance(plain, ToolCompleted)
    assert plain.attachments is None


def test_the_model_sees_files_until_the_output_is_left_out() -> None:
    def told(entry: MessageWithParts) -> ToolTurn:
        prompt = ModelInput()
        prompt.extend((entry,), frozenset(), since=0)
        (result,) = [each for each in prompt.messages if isinstance(each, ToolTurn)]
        return result

    part = render(DONE)
    assert told(MessageWithParts(info=step(), parts=(part,))).files == (
        Attachment("image/png", FILE.url, "dot.png"),
    )
    assert estimate_output(part) == IMAGE_TOKENS + 1
    cleared = render(replace(DONE, compacted=7))
    result = told(MessageWithParts(info=step(), parts=(cleared,)))
    assert result.output == CLEARED
    assert result.files == ()
    assert estimate_output(cleared) == 0


def test_large_files_are_left_out_before_a_request_is_too_large() -> None:
    big = ResultFile("image/png", f"data:image/png;base64,{'A' * 5_000_000}")
    prompt = ModelInput()
    for number in range(4):
        done = replace(DONE, part_id=PartId(f"prt_{number}"), state=Settled(Completed("", files=(big,)), 9))
        prompt.extend((MessageWithParts(info=step(), parts=(render(done),)),), frozenset(), since=number)
    assert prompt.stale_outputs() == ("prt_0", "prt_1", "prt_2")


def test_texts_name_files_and_never_hold_them() -> None:
    entry = MessageWithParts(info=step(), parts=(render(DONE),))
    prompt = ModelInput()
    prompt.extend((entry,), frozenset(), since=0)
    request = ChatRequest(model=ModelRef(provider_id="p", model_id="m"), messages=prompt.messages)
    texts = [
        digest("", [entry], frozenset(), room=10_000),
        transcript([entry], Transcript(include_tool_results=True)),
        result_text(DONE),
        *request_attributes(request).values(),
    ]
    for text in texts:
        assert "dot.png" in text
        assert "image/png" in text
        assert DOT not in text
    assert "attached" not in result_text(call(Settled(Failed("no"), 9)))
