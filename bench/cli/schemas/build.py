"""Generate the schemas from the models: `python -m bench.cli.schemas.build`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from bench.base.plugins import load, plugins
from bench.cli.schemas import FOLDER
from bench.comparison.comparison import Comparison
from bench.data.arrowtables import SCHEMAS
from bench.data.card import Card
from bench.data.parquet import DatasetManifest
from bench.evaluation.experiment import Experiment
from bench.evaluation.run_files import RunLine
from bench.gating.baseline import Baseline
from bench.gating.policy import Policy
from bench.gating.report import GateReport
from bench.lookup.unfinished import Begun
from bench.models.llm.journal import JournalLine
from bench.results.manifest import Manifest, Metrics
from bench.results.store import PER_QUERY_SCHEMA, REPEATED_RUN_SCHEMA, REPEATS_SCHEMA, RUN_SCHEMA


def build_schemas() -> dict[str, dict[str, Any]]:
    """Name -> schema generated from the current models."""
    models: dict[str, type[BaseModel]] = {
        "baseline": Baseline,
        "begun": Begun,
        "card": Card,
        "comparison": Comparison,
        "dataset": DatasetManifest,
        "experiment": Experiment,
        "gate-policy": Policy,
        "gate-report": GateReport,
        "llm-journal": JournalLine,
        "manifest": Manifest,
        "metrics": Metrics,
        "run-line": RunLine,
    }
    models |= {name: load(model) for plugin in plugins() for name, model in plugin.schemas.items()}
    schemas = {name: _add_title(name, model.model_json_schema()) for name, model in models.items()}
    result_tables = {"run": RUN_SCHEMA, "per_query": PER_QUERY_SCHEMA, "repeats": REPEATS_SCHEMA}
    tables: dict[str, pa.Schema] = {**result_tables, **SCHEMAS}
    # Including the columns that only some of these files have.
    widest = {**tables, "run": REPEATED_RUN_SCHEMA}
    number = {"type": ["number", "null"]}
    open_ended = {"per_query": number, "repeats": number, "queries": {"type": ["string", "null"]}}
    for name, table in tables.items():
        row = {
            "type": "object",
            "properties": {field.name: _column(field.type) for field in widest[name]},
            "required": [field.name for field in table],
            "additionalProperties": open_ended.get(name, False),
        }
        schemas[f"{name}.parquet"] = _add_title(f"a row of {name}.parquet", row)
    return schemas


def _add_title(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def _column(kind: Any) -> dict[str, Any]:
    if pa.types.is_list(kind):
        return {"type": ["array", "null"], "items": _column(kind.value_type)}
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {field.name: _column(field.type) for field in kind}}
    name = "boolean" if pa.types.is_boolean(kind) else "integer" if pa.types.is_integer(kind) else "number"
    return {"type": ["string" if pa.types.is_string(kind) else name, "null"]}


def write_schemas() -> None:
    """Rewrite the shipped files; schemas of plug-ins go to the plug-ins' folders."""
    places = {name: plugin.folder / "schemas" for plugin in plugins() for name in plugin.schemas}
    for name, schema in build_schemas().items():
        text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
        (places.get(name, FOLDER) / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    write_schemas()
