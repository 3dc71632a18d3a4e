"""JSON Schema of wire types: it says what our encoder writes and our decoder reads, and nothing else."""

from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import Failure, UnknownFailure, aborted_error
from asyncagents.domain.conversation.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.server.schema import Schema, Schemas, merge_duplicates


class Leaf(Shape, frozen=True, kw_only=True):
    """Something small.

    On two lines.
    """

    name: str
    note_id: str | None = None


class Tree(Shape, frozen=True, kw_only=True):
    leaves: tuple[Leaf, ...]
    branches: "dict[str, Tree]" = msgspec.field(default_factory=dict)
    size: int = 3


class Dog(Shape, frozen=True, kw_only=True, tag_field="type", tag="dog"):
    loud: bool


class Cat(Shape, frozen=True, kw_only=True, tag_field="type", tag="cat"):
    lives: float | None


class Whole(msgspec.Struct, frozen=True):
    """Its fields are always written."""

    one: int | None = None
    two: str | UnsetType = UNSET


STRING, INTEGER = {"type": "string"}, {"type": "integer", "format": "int64"}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (SessionId, STRING),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (str | None, {"anyOf": [STRING, {"type": "null"}]}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (list[str], {"type": "array", "items": STRING}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Annotated[int, Meta(ge=1, lt=9)], INTEGER | {"minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[str, Meta(min_length=1, pattern=r"\S")], STRING | {"minLength": 1, "pattern": r"\S"}),
    ],
)
def test_a_type_becomes_the_same_schema_for_input_and_output(kind: Any, wanted: Schema) -> None:
    assert Schemas().output_schema(kind) == wanted == Schemas().input_schema(kind)


def test_a_field_omitted_when_none_is_nullable_in_the_input_schema_alone() -> None:
    schemas = Schemas()
    given, taken = schemas.output_schema(Leaf), schemas.input_schema(Leaf)
    assert given["$ref"] == "#/components/schemas/Leaf"
    assert taken["$ref"] == "#/components/schemas/LeafInput"
    assert schemas.components["Leaf"] == {
        "type": "object",
        "properties": {"name": STRING, "noteID": STRING},
        "required": ["name"],
        "description": "Something small. On two lines.",
    }
    nullable = {"anyOf": [STRING, {"type": "null"}]}
    assert schemas.components["LeafInput"]["properties"]["noteID"] == nullable


def test_the_schema_of_a_type_used_as_input_alone_has_its_plain_name() -> None:
    schemas = Schemas()
    assert schemas.input_schema(Leaf) == {"$ref": "#/components/schemas/Leaf"}


def test_a_type_may_refer_to_itself_and_its_schema_shows_defaults() -> None:
    schemas = Schemas()
    schemas.output_schema(Tree)
    shown = schemas.components["Tree"]["properties"]
    assert shown["branches"]["additionalProperties"] == {"$ref": "#/components/schemas/Tree"}
    assert shown["size"] == INTEGER | {"default": 3}
    assert schemas.components["Tree"]["required"] == ["leaves"]


def test_a_union_has_its_tags_as_discriminator() -> None:
    schemas = Schemas()
    union = schemas.output_schema(Dog | Cat)
    assert union["discriminator"]["mapping"] == {
        "dog": "#/components/schemas/Dog",
        "cat": "#/components/schemas/Cat",
    }
    assert schemas.components["Dog"]["properties"]["type"] == {"const": "dog"}
    assert schemas.components["Cat"]["required"] == ["type", "lives"]


def test_a_field_that_is_always_written_is_required_in_output_alone() -> None:
    schemas = Schemas()
    schemas.output_schema(Whole)
    schemas.input_schema(Whole)
    assert schemas.components["Whole"]["required"] == ["one"]
    assert "required" not in schemas.components["WholeInput"]


class Pair(Shape, frozen=True, kw_only=True):
    dog: Dog
    leaf: Leaf


def test_equal_input_and_output_schemas_are_merged() -> None:
    schemas = Schemas()
    schemas.output_schema(Pair)
    body = schemas.input_schema(Pair)
    shown = merge_duplicates(
        {"paths": [body, schemas.input_schema(Dog)], "components": {"schemas": schemas.components}}
    )

    assert set(schemas.components) == {"Pair", "Dog", "Leaf", "PairInput", "DogInput", "LeafInput"}
    assert set(shown["components"]["schemas"]) == {"Pair", "Dog", "Leaf", "PairInput", "LeafInput"}
    assert shown["paths"] == [body, {"$ref": "#/components/schemas/Dog"}]
    assert shown["components"]["schemas"]["PairInput"]["properties"] == {
        "dog": {"$ref": "#/components/schemas/Dog"},
        "leaf": {"$ref": "#/components/schemas/LeafInput"},
    }


def test_two_types_of_one_name_are_refused() -> None:
    other = msgspec.defstruct("Leaf", [("x", int)])
    schemas = Schemas()
    schemas.output_schema(Leaf)
    with pytest.raises(AssertionError, match="two types are named Leaf"):
        schemas.output_schema(other)


def fits(kind: Any, raw: bytes) -> bool:
    schemas = Schemas()
    schema = {**schemas.output_schema(kind), "components": {"schemas": schemas.components}}
    return jsonschema_rs.is_valid(schema, msgspec.json.decode(raw))


IDS: dict[str, Any] = {"id": PartId("prt_1"), "session_id": SessionId("s"), "message_id": MessageId("m")}
WRITTEN = b'"id":"prt_1","sessionID":"s","messageID":"m"'


@pytest.mark.parametrize(
    "part",
    [
        encode(TextPart(text="hi", **IDS)),
        b'{"type":"hologram","shape":[1,2]}',
        b'{"type":"tool","callID":"c","tool":"t","state":{"status":"dreaming"}}',
        b'{"type":"file","mime":"a/b","url":"u","source":{"type":"cloud"}}',
    ],
)
def test_known_and_unknown_kinds_of_parts_fit_the_schema(part: bytes) -> None:
    info = UserMessage(
        id=MessageId("m"),
        session_id=SessionId("s"),
        time=MessageTime(created=1),
        agent="build",
        model=ModelRef(provider_id="p", model_id="m"),
    )
    assert fits(MessageWithParts, encode(MessageWithParts(info=info, parts=(decode_part(part),))))


@pytest.mark.parametrize(
    "part",
    [
        b'{"type":"text",%s}' % WRITTEN,
        b'{"type":"text","text":7,%s}' % WRITTEN,
        b'{"type":"tool","callID":"c","tool":"t","state":{"status":"running"},%s}' % WRITTEN,
        b'{"text":"without a type"}',
        b'"text"',
    ],
)
def test_an_invalid_part_of_a_known_kind_does_not_fit_the_schema(part: bytes) -> None:
    info = (
        b'{"role":"user","id":"m","sessionID":"s","time":{"created":1},"agent":"a",'
        b'"model":{"providerID":"p","modelID":"m"}}'
    )
    assert not fits(MessageWithParts, b'{"info":%s,"parts":[%s]}' % (info, part))
    assert fits(MessageWithParts, b'{"info":%s,"parts":[]}' % info)


def test_known_and_unknown_kinds_of_failures_fit_the_schema() -> None:
    assert fits(Failure, encode(aborted_error()))
    assert fits(Failure, encode(UnknownFailure(b'{"name":"SolarFlare"}', "SolarFlare")))
    assert not fits(Failure, b'{"name":"MessageAbortedError"}')
    assert not fits(Failure, b'{"data":{}}')
