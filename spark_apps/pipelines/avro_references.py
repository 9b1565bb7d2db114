"""Inserts the referenced types of other schemas into an Avro schema, because Spark's functions take a single text."""

import json
from collections.abc import Iterable
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})


def with_references(schema: str, references: Iterable[str]) -> str:
    """Return the schema as JSON, with each referenced type defined at its first use.

    Raises `ValueError` for a type with two definitions.
    """
    types: dict[str, Any] = {}
    for text in references:
        _collect(_full_names(json.loads(text), ""), types)
    return json.dumps(_defined(_full_names(json.loads(schema), ""), types, set()))


def _full_names(schema: Any, space: str) -> Any:
    """Return the schema with full names in all definitions and uses of named types."""
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES or "." in schema or not space else f"{space}.{schema}"
    if isinstance(schema, list):
        return [_full_names(one, space) for one in schema]
    if schema["type"] in NAMED:
        own, dot, name = schema["name"].rpartition(".")
        space = own if dot else schema.get("namespace", space)
        schema = {**schema, "name": name, "namespace": space}
        if "fields" in schema:
            schema["fields"] = [{**one, "type": _full_names(one["type"], space)} for one in schema["fields"]]
        return schema
    return _within(schema, lambda one: _full_names(one, space))


def _collect(schema: Any, types: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for one in schema:
            _collect(one, types)
    elif isinstance(schema, dict):
        if schema["type"] in NAMED and types.setdefault(_name(schema), schema) != schema:
            raise ValueError(f"its references define {_name(schema)} in two ways")
        for one in schema.get("fields", ()):
            _collect(one["type"], types)
        _within(schema, lambda one: _collect(one, types))


def _defined(schema: Any, types: dict[str, Any], known: set[str]) -> Any:
    """Return the schema with each of `types` defined at its first use. `known`: types that are defined already."""
    if isinstance(schema, str):
        return _defined(types[schema], types, known) if schema in types and schema not in known else schema
    if isinstance(schema, list):
        return [_defined(one, types, known) for one in schema]
    if schema["type"] in NAMED:
        if _name(schema) in known:
            return _name(schema)
        known.add(_name(schema))
        if "fields" in schema:
            schema = {
                **schema,
                "fields": [{**one, "type": _defined(one["type"], types, known)} for one in schema["fields"]],
            }
        return schema
    return _within(schema, lambda one: _defined(one, types, known))


def _within(schema: dict[str, Any], change: Any) -> dict[str, Any]:
    """Apply `change` to the type inside an array, a map, or a type with further properties."""
    inner = {"array": "items", "map": "values"}.get(schema["type"] if isinstance(schema["type"], str) else "", "type")
    return {**schema, inner: change(schema[inner])}


def _name(schema: dict[str, Any]) -> str:
    return f"{schema['namespace']}.{schema['name']}" if schema["namespace"] else str(schema["name"])
