"""Make JSON schemas self-contained: put definitions in the place of references to them."""

from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

MOST_BYTES = 50_000
"""A schema that grows beyond this keeps its references."""
MOST_NODES = 20_000
MOST_DEPTH = 60
_DEFINITIONS = frozenset({"$defs", "definitions"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose value has a schema under each name."""
_VALUES = frozenset({"const", "default", "enum", "examples", "required"})
"""Keywords whose value is no schema."""
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
"""Keywords that say something about a value and do not restrict it."""
_RESOLVED_OTHERWISE = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"})


class _CannotInline(Exception):
    """A reference cannot be followed here, or the schema would become too large."""


def inline_references(schema: Schema, *, recursive: bool = False) -> Schema:
    """Return the schema with the definition in the place of each local reference, and without definitions.

    A definition that contains itself cannot be written out. With `recursive`, inside itself only its type and
    a note that names it are kept: the schema stays valid and finite, and accepts all that it accepted before;
    what it does not check there is checked when the arguments are read. Without, such a schema is returned
    unchanged, and so is one with a reference to somewhere else, or one that would become too large.
    """
    try:
        inlined = _Inliner(schema, recursive=recursive).expand(schema, ())
    except _CannotInline:
        return schema
    assert isinstance(inlined, dict)
    size = len(msgspec.json.encode(inlined))
    return inlined if size <= MOST_BYTES or size <= len(msgspec.json.encode(schema)) else schema


def schema_of_type(kind: type[Any]) -> Schema:
    """Return the schema of a type, with its fields at the top and without references.

    Raises `TypeError` for a type that JSON cannot express.
    """
    (schema,), others = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if "$ref" in schema:
        schema = others[schema["$ref"].removeprefix("#/$defs/")]
    return inline_references({**schema, "$defs": others}, recursive=True) if others else schema


class _Inliner:
    def __init__(self, root: Schema, *, recursive: bool) -> None:
        self._root = root
        self._recursive = recursive
        self._nodes = self._depth = 0

    def expand(self, value: Any, inside: tuple[str, ...]) -> Any:
        """Expand what may be a schema, or a list of them. `inside`: the references on the way to it."""
        self._nodes += 1
        self._depth += 1
        if self._nodes > MOST_NODES or self._depth > MOST_DEPTH:
            raise _CannotInline
        match value:
            case dict():
                value = self._expand_schema(value, inside)
            case list():
                value = [self.expand(each, inside) for each in value]
            case _:
                pass
        self._depth -= 1
        return value

    def _expand_schema(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        if _RESOLVED_OTHERWISE & schema.keys():
            raise _CannotInline
        beside = {
            key: self._expand_keyword(key, value, inside)
            for key, value in schema.items()
            if not _is_dropped(key, value)
        }
        if "$ref" not in schema:
            return beside
        return _join(self._find_definition(schema["$ref"], inside), beside)

    def _expand_keyword(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in _VALUES:
            return value
        if key in _MAPS and isinstance(value, dict):
            return {name: self.expand(each, inside) for name, each in value.items()}
        return self.expand(value, inside)

    def _find_definition(self, reference: Any, inside: tuple[str, ...]) -> Schema:
        found = self._look_up(reference)
        if reference not in inside:
            expanded: Schema = self.expand(found, (*inside, reference))
            return expanded
        if not self._recursive:
            raise _CannotInline
        kind = {"type": found["type"]} if "type" in found else {}
        return {**kind, "description": f"The same as the {_name_of(reference, found)} that it is in."}

    def _look_up(self, reference: Any) -> Schema:
        """Look up a JSON pointer into the whole schema."""
        if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
            raise _CannotInline
        found: Any = self._root
        for step in reference.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise _CannotInline
            found = found[key]
        if not isinstance(found, dict):
            raise _CannotInline
        return found


def _is_dropped(key: str, value: Any) -> bool:
    """Whether a keyword is not needed any more: definitions, and OpenAPI's mapping of choices to them."""
    return (
        key in _DEFINITIONS
        or key == "$ref"
        or (key == "discriminator" and isinstance(value, dict) and "mapping" in value)
    )


def _join(definition: Schema, beside: Schema) -> Schema:
    """Join a definition with the keywords beside the reference; notes there are about this place."""
    if beside.keys() <= _NOTES:
        return {**definition, **beside}
    notes = {key: value for key, value in beside.items() if key in _NOTES}
    rules = {key: value for key, value in beside.items() if key not in _NOTES}
    return {**notes, "allOf": [definition, rules]}


def _name_of(reference: str, definition: Schema) -> str:
    title = definition.get("title")
    return title if isinstance(title, str) else reference.rpartition("/")[2] or "object"
