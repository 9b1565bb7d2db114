"""The schema of an operator's state as text, stored with each partition and compared at each claim and batch."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import types as T  # noqa: N812 (its usual name)

from spark_apps.state.codec import schema_problem
from spark_apps.state.handle import TimeMode, Variable

FORMAT = 1


def schema_text(mode: TimeMode, key: T.StructType, variables: Mapping[str, Variable]) -> str:
    """Return the schema as JSON, in a fixed order."""
    states = {name: _variable(one) for name, one in variables.items()}
    found = {"version": FORMAT, "mode": mode.value, "key": key.jsonValue(), "states": states}
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def changed(stored: str, declared: str, dropped: Collection[str]) -> str:
    """Return why the operator with the schema `declared` cannot read state of the schema `stored`; empty if it can.

    Raises `ValueError` for a text of another program. New state variables are allowed. A variable that is no longer
    declared has to be in `dropped`, by `deleteIfExists`.
    """
    if stored == declared:
        return ""
    old, new = _read(stored), _read(declared)
    if old["version"] != FORMAT:
        return f"the state has the format {old['version']} of a later release"
    problem = _struct_problem(old["key"], new["key"], "the grouping key")
    if not problem and len(old["key"]["fields"]) != len(new["key"]["fields"]):
        problem = "the grouping key has another number of columns"
    if not problem and old["mode"] != new["mode"]:
        problem = f"the time mode was {old['mode']}, and is {new['mode']}"
    for name, before in sorted(old["states"].items()):
        problem = problem or _variable_problem(name, before, new["states"].get(name), dropped)
    return problem


def names_of(stored: str) -> Collection[str]:
    """Return the names of the state variables in a stored schema."""
    names: dict[str, Any] = _read(stored)["states"]
    return names


def _variable(one: Variable) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": one.kind.value, "value": one.value.schema.jsonValue()}
    return found if one.key is None else {**found, "key": one.key.schema.jsonValue()}


def _variable_problem(name: str, old: Any, new: Any, dropped: Collection[str]) -> str:
    if new is None:
        return (
            ""
            if name in dropped
            else f"state {name} is no longer declared: call handle.deleteIfExists('{name}') in init"
        )
    if old["kind"] != new["kind"]:
        return f"state {name} was a {old['kind']}, and is declared as a {new['kind']}"
    if "key" in old:
        problem = _struct_problem(old["key"], new["key"], f"the key of state {name}")
        if problem:
            return problem
    return _struct_problem(old["value"], new["value"], f"state {name}")


def _struct_problem(old: Any, new: Any, what: str) -> str:
    return schema_problem(T.StructType.fromJson(old), T.StructType.fromJson(new), what)


def _read(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("version"), int):
        raise ValueError("the schema of the state is no object with a version")  # noqa: TRY004 - a text of another program
    return found
