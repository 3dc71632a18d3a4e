"""Events become updates: each piece of text once, in order, whatever repeats or is missing."""

from hypothesis import given
from hypothesis import strategies as st

from asyncagents.acp.shape import (
    AgentChunk,
    ClientCapabilities,
    ClientSessionCapabilities,
    NoticeUpdate,
    TextContent,
    ThoughtChunk,
    UserChunk,
)
from asyncagents.acp.translate import Translator
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.message import (
    AssistantMessage,
    MessagePath,
    MessageTime,
    ModelRef,
    UserMessage,
)
from asyncagents.domain.conversation.part import PartTime, ReasoningPart, TextPart
from asyncagents.domain.conversation.session import Session, SessionTime, Tokens
from asyncagents.domain.event import Event, MessageUpdated, PartDelta, PartUpdated, SessionCompacted
from asyncagents.domain.id import MessageId, PartId, SessionId

ROOT = SessionId("ses_root")
MESSAGE = MessageId("msg_1")
PART = PartId("prt_1")


def build_session(session_id: SessionId = ROOT, parent_id: SessionId | None = None) -> Session:
    return Session(
        id=session_id,
        slug="s",
        project_id="p",
        directory="/project",
        title="Title",
        version="1",
        time=SessionTime(created=0, updated=0),
        parent_id=parent_id,
    )


PLAIN = ClientCapabilities()


def build_translator(capabilities: ClientCapabilities = PLAIN) -> Translator:
    return Translator(build_session(), capabilities, {})


def assistant(
    *, summary: bool | None = None, failed: bool = False, message_id: MessageId = MESSAGE
) -> MessageUpdated:
    info = AssistantMessage(
        id=message_id,
        session_id=ROOT,
        parent_id=MessageId("msg_0"),
        time=MessageTime(created=0, completed=1 if failed else None),
        model_id="m",
        provider_id="p",
        mode="build",
        agent="build",
        path=MessagePath(cwd="/", root="/"),
        cost=0,
        tokens=Tokens.zero(),
        summary=summary,
        error=unknown_error("no luck") if failed else None,
    )
    return MessageUpdated(session_id=ROOT, info=info)


def user() -> MessageUpdated:
    model = ModelRef(provider_id="p", model_id="m")
    info = UserMessage(id=MESSAGE, session_id=ROOT, time=MessageTime(created=0), agent="build", model=model)
    return MessageUpdated(session_id=ROOT, info=info)


def row(text: str, *, synthetic: bool | None = None) -> PartUpdated:
    part = TextPart(id=PART, session_id=ROOT, message_id=MESSAGE, text=text, synthetic=synthetic)
    return PartUpdated(session_id=ROOT, part=part, time=0)


def delta(text: str, offset: int) -> PartDelta:
    return PartDelta(
        session_id=ROOT, message_id=MESSAGE, part_id=PART, field="text", delta=text, offset=offset
    )


def sent_text(translator: Translator, events: list[Event]) -> str:
    updates = [each.update for event in events for each in translator.translate(event)]
    return "".join(
        each.content.text
        for each in updates
        if isinstance(each, AgentChunk | ThoughtChunk | UserChunk) and isinstance(each.content, TextContent)
    )


def test_deltas_continue_the_row_of_their_part() -> None:
    events: list[Event] = [assistant(), row(""), delta("Hel", 0), delta("lo", 3), row("Hello")]

    assert sent_text(build_translator(), events) == "Hello"


def test_a_missing_delta_is_made_up_by_the_row() -> None:
    events: list[Event] = [assistant(), row(""), delta("Hel", 0), delta("!", 5), row("Hello!")]

    assert sent_text(build_translator(), events) == "Hello!"


@given(st.text(max_size=40), st.data())
def test_any_mix_of_rows_and_deltas_sends_each_character_once(text: str, data: st.DataObject) -> None:
    events: list[Event] = [assistant(), row("")]
    for _ in range(data.draw(st.integers(0, 12))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        piece: Event = delta(text[start:end], start) if data.draw(st.booleans()) else row(text[:end])
        events.append(piece)
    events.append(row(text))

    assert sent_text(build_translator(), events) == text


def test_a_reasoning_part_is_a_thought_also_in_its_deltas() -> None:
    part = ReasoningPart(id=PART, session_id=ROOT, message_id=MESSAGE, text="", time=PartTime(start=0))
    translator = build_translator()
    translator.translate(assistant())
    translator.translate(PartUpdated(session_id=ROOT, part=part, time=0))
    (sent,) = translator.translate(delta("Hm", 0))

    assert isinstance(sent.update, ThoughtChunk)


def test_a_synthetic_part_is_not_sent() -> None:
    assert sent_text(build_translator(), [user(), row("for the model", synthetic=True)]) == ""


def test_a_summary_is_not_sent() -> None:
    assert sent_text(build_translator(), [assistant(summary=True), row("What was said")]) == ""


def test_the_prompt_of_this_client_is_not_sent_back() -> None:
    translator = build_translator()
    translator.expect_prompt(MESSAGE)

    assert sent_text(translator, [user(), row("hi")]) == ""


def test_the_prompt_of_another_client_is_sent_as_a_message_of_the_user() -> None:
    translator = build_translator()
    translator.translate(user())
    (sent,) = translator.translate(row("hi"))

    assert isinstance(sent.update, UserChunk)


def test_events_of_a_child_are_not_sent_to_a_client_without_subagents() -> None:
    child = SessionId("ses_child")
    part = TextPart(id=PART, session_id=child, message_id=MESSAGE, text="child")
    translator = build_translator()

    assert translator.translate(PartUpdated(session_id=child, part=part, time=0)) == []


def test_a_failed_turn_is_a_notice_where_the_client_shows_notices() -> None:
    capabilities = ClientCapabilities(session=ClientSessionCapabilities(notices={}))
    (sent,) = build_translator(capabilities).translate(assistant(failed=True))

    assert isinstance(sent.update, NoticeUpdate)
    assert "no luck" in str(sent.update.description)


def test_a_failed_turn_is_a_text_where_the_client_shows_no_notices() -> None:
    (sent,) = build_translator().translate(assistant(failed=True))

    assert isinstance(sent.update, AgentChunk)


def test_a_failure_is_shown_with_its_message_only() -> None:
    capabilities = ClientCapabilities(session=ClientSessionCapabilities(notices={}))
    (notice,) = build_translator(capabilities).translate(assistant(failed=True))
    (text,) = build_translator().translate(assistant(failed=True))

    assert notice.update.description == "no luck"
    assert text.update.content.text == "\n\nThe answer failed: no luck"


def test_each_compaction_has_an_id_of_its_own() -> None:
    capabilities = ClientCapabilities(session=ClientSessionCapabilities(compaction={}))
    translator = build_translator(capabilities)
    found = []
    for message_id in ("msg_1", "msg_2"):
        translator.translate(assistant(summary=True, message_id=MessageId(message_id)))
        found += translator.translate(SessionCompacted(session_id=ROOT))

    assert [each.update.compaction_id for each in found] == ["compaction-msg_1", "compaction-msg_2"]


def test_a_client_that_shows_no_compaction_is_told_of_none() -> None:
    assert build_translator().translate(SessionCompacted(session_id=ROOT)) == []
