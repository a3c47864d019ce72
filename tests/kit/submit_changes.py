"""Changes that make a hostile submission, and what is asked of the reasons it is refused for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.leaderboard.submit.check import CheckedSubmission


def reasons(verdict: CheckedSubmission, outcome: str = "refused") -> str:
    assert verdict.outcome == outcome, verdict
    assert verdict.reasons
    for reason in verdict.reasons:
        assert len(reason) < 700
        assert "\n" not in reason
    return "\n".join(verdict.reasons)


def put(*path: str | int, value: Any) -> Callable[[Any], None]:
    """A change that sets one place of a JSON value."""

    def change(raw: Any) -> None:
        for part in path[:-1]:
            raw = raw[part]
        raw[path[-1]] = value

    return change


def named_as(spec: str, full_spec: str = "", **method: Any) -> Callable[[Any], None]:
    """A change of the method's name wherever a manifest has it, and of more that it says of the method."""

    def change(raw: Any) -> None:
        if "method" in raw:
            raw["method"] |= {"spec": spec, "full_spec": full_spec or spec} | method
            raw["settings"]["method"] = spec
            words = shlex.split(raw["environment"]["command"])
            raw["environment"]["command"] = shlex.join([*words[:3], spec, *words[4:]])

    return change


def column(name: str, change: Callable[[list[Any]], list[Any] | None]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column of a table, as a list."""

    def changed(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        result = change(values)
        place = table.column_names.index(name)
        field = table.schema.field(name)
        return table.set_column(place, field, pa.array(values if result is None else result, field.type))

    return changed


def at(place: int, value: Any) -> Callable[[list[Any]], None]:
    def change(values: list[Any]) -> None:
        values[place] = value

    return change


def exchanged(one: int, other: int) -> Callable[[pa.Table], pa.Table]:
    """Exchange the tools of two rows, and nothing else."""

    def change(values: list[Any]) -> None:
        values[one], values[other] = values[other], values[one]

    return column("tool_id", change)


def everywhere(name: str, value: str, times: int = 1) -> Callable[[pa.Table], pa.Table]:
    """A string on every row, of a few bytes in the file; in a column of lists, `times` of it in the first."""

    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        lists = pa.types.is_list(table.schema.field(name).type)
        count = len(table) - 1 + times if lists else len(table)
        from_arrays = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), [value])
        if lists:
            starts = np.r_[0, np.arange(len(table)) + times].astype(np.int32)
            from_arrays = pa.ListArray.from_arrays(pa.array(starts), from_arrays)
        return table.set_column(place, name, from_arrays).replace_schema_metadata({"plain": "1"})

    return change
