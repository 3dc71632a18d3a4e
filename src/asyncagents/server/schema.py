"""JSON Schema of request and response bodies, generated from their types.

msgspec's own generator does not support types that keep unknown fields, such as our messages.
"""

import types
import typing
from collections.abc import Iterable
from typing import Any, Literal, NewType, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from asyncagents.domain.conversation.failure import FAILURE_NAMES, Failure, KnownFailure, UnknownFailure
from asyncagents.domain.conversation.part import Part, PartSource, ToolState, UnknownPart

Schema: TypeAlias = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    Any: {},
    object: {},
    msgspec.Raw: {},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
}
_BOUNDS = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
}
"""Constraints of `msgspec.Meta` and their JSON Schema keywords."""
_REF, _INPUT = "#/components/schemas/", "Input"
_LISTS = (list, tuple, frozenset, set)


class Schemas:
    """Generates schemas; `components` collects the referenced objects: `#/components/schemas/<name>`."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._kinds: dict[str, tuple[Any, bool]] = {}

    def output_schema(self, kind: Any) -> Schema:
        """Return the schema of a response; fields that are omitted when None are never null."""
        return self._schema(kind, taken=False)

    def input_schema(self, kind: Any) -> Schema:
        """Return the schema of a request body. A type that is also in a response, with another schema, is
        named `…Input`."""
        return self._schema(kind, taken=True)

    def _schema(self, kind: Any, *, taken: bool) -> Schema:
        if isinstance(kind, NewType):
            return self._schema(kind.__supertype__, taken=taken)
        if (plain := _PLAIN.get(kind)) is not None:
            return dict(plain)
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in {Union, types.UnionType}:
            return self._union(inner, taken=taken)
        if origin is typing.Annotated:
            return self._schema(inner[0], taken=taken) | _bounds(inner[1:])
        return self._compound(kind, origin, inner, taken=taken)

    def _compound(self, kind: Any, origin: Any, inner: tuple[Any, ...], *, taken: bool) -> Schema:
        if origin is dict:
            values = self._schema(inner[1], taken=taken)
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        if origin in _LISTS:
            assert origin is not tuple or inner[1:] == (...,), f"{kind} is a tuple of fixed length"
            return {"type": "array", "items": self._schema(inner[0], taken=taken)}
        return self._reference(kind, taken=taken)

    def _union(self, kinds: Iterable[Any], *, taken: bool) -> Schema:
        """Build `anyOf`, with a `discriminator` for client generators if all members are tagged."""
        shown = [kind for kind in kinds if kind is not UnsetType]
        schemas = [self._schema(kind, taken=taken) for kind in shown]
        if len(schemas) == 1:
            return schemas[0]
        tagged = [(kind, schema) for kind, schema in zip(shown, schemas, strict=True) if _tag(kind)]
        union: Schema = {"anyOf": schemas}
        if len(tagged) == len(shown):
            mapping = {str(kind.__struct_config__.tag): schema["$ref"] for kind, schema in tagged}
            union["discriminator"] = {"propertyName": _tag(shown[0]), "mapping": mapping}
        return union

    def _reference(self, kind: Any, *, taken: bool) -> Schema:
        name = self._name(kind, taken=taken)
        if name not in self.components:
            self.components[name] = {}  # it may refer to itself
            self._kinds[name] = kind, taken
            self.components[name] = self._object(kind, taken=taken)
        return {"$ref": _REF + name}

    def _name(self, kind: Any, *, taken: bool) -> str:
        name: str = kind.__dict__.get("schema_name", kind.__name__)
        if taken and self._kinds.get(name) == (kind, False):
            name += _INPUT
        known = self._kinds.get(name, (kind, taken))
        assert known[0] is kind, f"two types are named {name}: {known[0]} and {kind}"
        return name

    def _object(self, kind: Any, *, taken: bool) -> Schema:
        if kind is Failure:
            known = self._union(KnownFailure.__args__, taken=taken)["anyOf"]
            return {"anyOf": [*known, self._schema(UnknownFailure, taken=taken)], **_description(kind)}
        if kind is UnknownFailure:
            return _unknown_schema("name", list(FAILURE_NAMES)) | _description(kind)
        if kind is UnknownPart:
            return _UNKNOWN_PART | _description(kind)
        assert issubclass(kind, Struct), f"{kind} has no JSON form"
        return self._struct(kind, taken=taken)

    def _struct(self, kind: type[Struct], *, taken: bool) -> Schema:
        config, properties, required = kind.__struct_config__, {}, []
        if config.tag_field is not None:
            properties[config.tag_field] = {"const": config.tag}
            required.append(config.tag_field)
        for each in fields(kind):
            properties[each.encode_name] = self._field(each, taken=taken, omits=config.omit_defaults)
            if each.required or not (taken or config.omit_defaults or UnsetType in get_args(each.type)):
                required.append(each.encode_name)
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if config.forbid_unknown_fields:
            schema["additionalProperties"] = False
        return schema | _description(kind)

    def _field(self, field: FieldInfo, *, taken: bool, omits: bool) -> Schema:
        inner = get_args(field.type)
        if not taken and omits and field.default is None and types.NoneType in inner:
            return self._union([kind for kind in inner if kind is not types.NoneType], taken=taken)
        schema = self._schema(field.type, taken=taken)
        if isinstance(field.default, str | bool | int | float):
            schema["default"] = field.default
        return schema


def merge_duplicates(document: Schema) -> Schema:
    """Remove each `…Input` schema that equals its output schema."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    twins = {name: name.removesuffix(_INPUT) for name in schemas if name.removesuffix(_INPUT) in schemas}
    twins = {name: plain for name, plain in twins.items() if name != plain}
    while True:  # equality depends on the schemas that they refer to
        names = {_REF + name: _REF + plain for name, plain in twins.items()}
        alike = {
            name: plain
            for name, plain in twins.items()
            if _rename_refs(schemas[name], names) == schemas[plain]
        }
        if alike == twins:
            break
        twins = alike
    remaining = {name: schema for name, schema in schemas.items() if name not in twins}
    shown: Schema = _rename_refs(
        document | {"components": document["components"] | {"schemas": remaining}}, names
    )
    return shown


def _rename_refs(value: Any, names: dict[str, str]) -> Any:
    match value:
        case dict():
            return {key: _rename_refs(each, names) for key, each in value.items()}
        case list():
            return [_rename_refs(each, names) for each in value]
        case str():
            return names.get(value, value)
        case _:
            return value


def _bounds(marks: Iterable[Any]) -> Schema:
    given = [(_BOUNDS[name], getattr(mark, name)) for mark in marks for name in _BOUNDS]
    return {name: bound for name, bound in given if bound is not None}


def _tag(kind: Any) -> str | None:
    return kind.__struct_config__.tag_field if isinstance(kind, type) and issubclass(kind, Struct) else None


def _description(kind: Any) -> Schema:
    text = kind.__dict__.get("__doc__")
    return {"description": " ".join(text.split())} if text else {}


def _unknown_schema(field: str, known: list[str]) -> Schema:
    other = {"type": "string", "not": {"enum": known}}
    return {"type": "object", "required": [field], "properties": {field: other}}


def _tags(union: Any) -> list[str]:
    return [each.__struct_config__.tag for each in union.__args__]


def _nested_unknown(type: str, field: str, unknown: Schema) -> Schema:
    return {"required": [field], "properties": {"type": {"const": type}, field: unknown}}


_UNKNOWN_PART: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
    "anyOf": [
        _unknown_schema("type", _tags(Part)),
        _nested_unknown("tool", "state", _unknown_schema("status", _tags(ToolState))),
        _nested_unknown("file", "source", _unknown_schema("type", _tags(PartSource))),
    ],
}
