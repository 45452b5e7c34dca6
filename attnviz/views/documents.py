"""The JSON Schema of each kind of document that `--json` and `-o numbers.json` write.

documents.toml says what is in them; the arrays of a Trace are those of PARTS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attnviz.traces import toml_reader
from attnviz.traces.parts import (
    PARTS_OF_ATTENTION,
    PARTS_OF_BLOCK,
    PARTS_OF_PREDICTION,
    PARTS_OF_RESIDUAL,
    Part,
    ResidualPart,
)

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TABLE_FILE = Path(__file__).with_name("documents.toml")
PLAIN_TYPES: dict[str, Schema] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "any": {},
}
# number?[head][query]? is a list of lists of numbers or nulls, or null itself.
DIMENSION = re.compile(r"\[\w+\]|\{\w+\}")
FIELD_TYPE = re.compile(rf"([\w-]+)(\??)((?:{DIMENSION.pattern})*)(\??)")
PARTS_BY_TABLE: dict[str, tuple[Part | ResidualPart, ...]] = {
    "Attention": PARTS_OF_ATTENTION,
    "Block": PARTS_OF_BLOCK,
    "Residual": PARTS_OF_RESIDUAL,
    "Prediction": PARTS_OF_PREDICTION,
}


@cache
def _tables() -> Mapping[str, Any]:
    """Return the tables of documents.toml by name."""
    return toml_reader.parse(TABLE_FILE.read_text("utf-8"), TABLE_FILE.name)


def document_kinds() -> Mapping[str, Sequence[str]]:
    """Return by name what each kind of document is, and the command that shows one."""
    kinds: Mapping[str, Sequence[str]] = _tables()["kinds"]
    return kinds


def document_schema(kind: str) -> Schema:
    """Return the JSON Schema of a kind of document, with the definitions that it refers to."""
    schema = _table_schema(kind)
    return {"$schema": DIALECT, **schema, "$defs": _definitions(schema)}


def all_documents_schema() -> Schema:
    """Return the JSON Schema that any document matches, with a definition for each kind."""
    references = [_reference(kind) for kind in document_kinds()]
    schema = {"title": "a document of attnviz", "oneOf": references}
    return {"$schema": DIALECT, **schema, "$defs": _definitions(schema)}


def _definitions(schema: Schema) -> dict[str, Schema]:
    """Return the schemas of all tables that a schema refers to, directly or through others."""
    definitions: dict[str, Schema] = {}
    waiting = [schema]
    while waiting:
        for name in re.findall(r"'#/\$defs/([\w-]+)'", repr(waiting.pop())):
            if name not in definitions:
                definitions[name] = _table_schema(name)
                waiting.append(definitions[name])
    return dict(sorted(definitions.items()))


def _table_schema(name: str) -> Schema:
    """Return the schema of the objects that a table describes; of a kind, with its title."""
    fields = _fields(name)
    properties = {field.removesuffix("?"): _field_schema(row) for field, row in fields.items()}
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [field for field in fields if not field.endswith("?")],
        "additionalProperties": True,  # of later versions, which a reader ignores
    }
    kinds = document_kinds()
    if name not in kinds:
        return schema
    about, command = kinds[name]
    properties["kind"] |= {"const": name}
    return {"title": name, "description": f"{about} ({command})", **schema}


def _fields(name: str) -> dict[str, str]:
    """Return the rows of a table by field, after those of the tables that it extends."""
    fields: dict[str, str] = {}
    table = dict(_tables()[name])
    for other in [*["Document"] * (name in document_kinds()), *table.pop("extends", ())]:
        may_be_missing = other.endswith("?")
        for field, row in _fields(other.removesuffix("?")).items():
            fields[f"{field.removesuffix('?')}?" if may_be_missing else field] = row
    for field in table:  # its own rows replace those it took over
        fields.pop(f"{field}?", None)
    return fields | table | dict(_part_rows(name))


def _part_rows(table: str) -> Iterator[tuple[str, str]]:
    """Yield the field and the row of each array of a table that PARTS describes; none of another.

    An attention has null where it lacks one; elsewhere it is left out.
    """
    null = "?" if table == "Attention" else ""
    for part in PARTS_BY_TABLE.get(table, ()):
        sides = ["head" if side == "group" else side for side in part.sides.split()]
        shapes = [sides, sides[1:]] if getattr(part, "spreads", False) else [sides]
        name = "boolean" if getattr(part, "binary", False) else "number"
        forms = (f"{name}{''.join(f'[{side}]' for side in shape)}{null}" for shape in shapes)
        if part.data:
            yield f"{part.data}?", f"{' or '.join(forms)}: {part.words}"


def _field_schema(row: str) -> Schema:
    """Return the schema of a field from its row, such as 'number[query][key]: the weights'."""
    types, _, about = row.partition(": ")
    forms = types.split(" or ")
    schemas = [_type_schema(form) for form in forms]
    shapes = " or ".join(filter(None, ("".join(DIMENSION.findall(form)) for form in forms)))
    return {
        **(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}),
        "description": f"{about}; indexed as {shapes}" if shapes else about,
    }


def _type_schema(form: str) -> Schema:
    """Return the schema of a type.

    >>> _type_schema("number?[key]")
    {'type': 'array', 'items': {'type': ['number', 'null']}}
    """
    match = FIELD_TYPE.fullmatch(form)
    assert match is not None, form
    name, item_null, dimensions, null = match.groups()
    schema = _with_null(PLAIN_TYPES[name] if name in PLAIN_TYPES else _reference(name), item_null)
    for dimension in reversed(DIMENSION.findall(dimensions)):
        if dimension.startswith("{"):
            schema = {"type": "object", "additionalProperties": schema}
            continue
        schema = {"type": "array", "items": schema}
        if (length := dimension.strip("[]")).isdigit():
            schema |= {"minItems": int(length), "maxItems": int(length)}
    return _with_null(schema, null)


def _with_null(schema: Schema, null: str) -> Schema:
    """Return a schema that also allows null if `null` is "?"; else the schema itself."""
    if not null:
        return schema
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _reference(name: str) -> Schema:
    """Return the schema of any object that a table describes."""
    return {"$ref": f"#/$defs/{name}"}
