"""`bench list schemas`: the shipped schemas are those of the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from bench.cli.schemas import schema_files, shipped_schema
from bench.cli.schemas.build import build_schemas

Bench = Callable[..., Any]


def test_the_shipped_schemas_are_those_of_the_models() -> None:
    shipped = {name: shipped_schema(name) for name in schema_files()}
    stale = [name for name, schema in build_schemas().items() if shipped.pop(name, None) != schema]
    renew = "renew the schemas by `python -m bench.cli.schemas.build`"
    assert not stale, f"{stale} are not those of their models: {renew}"
    assert not shipped, f"{[*shipped]} have no model: {renew}"


@pytest.mark.parametrize("name", schema_files())
def test_a_schema_is_printed_and_is_one(bench: Bench, name: str) -> None:
    schema = bench("list", "schemas", name).json
    assert schema == shipped_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_several_schemas_are_a_list_and_an_unknown_one_is_refused(bench: Bench) -> None:
    assert bench("list", "schemas", "manifest", "metrics").json == [
        shipped_schema("manifest"),
        shipped_schema("metrics"),
    ]
    assert "did you mean 'manifest'" in bench("list", "schemas", "manifst", code=2).err
    assert bench("list", "schemas", "--json").json == list(schema_files())


def test_without_a_name_the_names_are_listed(bench: Bench) -> None:
    assert bench("list", "schemas").out.splitlines() == list(schema_files()) == sorted(build_schemas())
