"""Declared, typed parameters of methods and dataset loaders, checked before anything loads."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar, get_args

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import core_schema

from bench.base.errors import UsageError
from bench.base.records import Record, faults
from bench.base.spec import Spec, Value, format_value, parse


class ParameterSet(Record):
    """Base of every parameter class: frozen, without unknown names.

    The defaults apply to a spec without arguments; `bench list` shows the descriptions.
    Fields may be numbers, strings, booleans, literals, tuples, and `MethodSpec`.
    """


def _as_spec(value: object) -> Spec:
    if isinstance(value, Spec):
        return value
    if isinstance(value, str):
        try:
            return parse(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    raise ValueError("must name a method, as in base=dense or base=dense(similarity=l2)")


class _SpecSchema:
    """Tells pydantic not to build a schema for a spec: with the recursive type `Value` it would never end."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema())
        return core_schema.no_info_plain_validator_function(_as_spec, serialization=written)


MethodSpec = Annotated[Spec, _SpecSchema]
"""A parameter whose value is another method."""

P = TypeVar("P", bound=ParameterSet)


def check_parameters(model: type[P], spec: Spec, kind: str) -> P:
    """The parameters of `spec` as an instance of `model`.

    Raises:
        UsageError: an unknown name or a value of the wrong type; the message says what is allowed.
    """
    arguments = {key: _plain(value) for key, value in spec.arguments}
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        fault = faults(error)[0]
        name = fault.where
        if fault.kind == "extra_forbidden":
            known = ", ".join(model.model_fields) or "none"
            hint = suggestion(name, model.model_fields)
            raise UsageError(f"{kind} {spec.name} has no parameter {name!r}{hint}; its parameters: {known}.") from None
        if fault.kind == "missing":
            raise UsageError(f"parameter {name!r} of {kind} {spec.name} is required; set it.") from None
        message = fault.message[:1].lower() + fault.message[1:]
        given = _offending_value(dict(spec.arguments), fault.place)
        raise UsageError(f"parameter {name!r} of {kind} {spec.name} is {given}: {message}.") from None


def method_parameters(model: type[ParameterSet]) -> frozenset[str]:
    """Names of the parameters whose value is a method or several methods."""
    return frozenset(name for name, field in model.model_fields.items() if _names_method(field.annotation))


def _names_method(annotation: Any) -> bool:
    return annotation is Spec or any(_names_method(part) for part in get_args(annotation))


def _offending_value(arguments: dict[str, Value], place: tuple[int | str, ...]) -> str:
    """The offending value as the user wrote it."""
    value = arguments[str(place[0])]
    for part in place[1:]:
        if isinstance(value, tuple) and isinstance(part, int):
            value = value[part]
    return repr(value) if isinstance(value, str) else format_value(value)


def _plain(value: Value) -> Any:
    return tuple(_plain(item) for item in value) if isinstance(value, tuple) else value


def full_spec(name: str, parameters: ParameterSet) -> Spec:
    """The spec with all parameters, including defaults; the input of hashes."""
    return Spec.of(name, {key: _value(getattr(parameters, key)) for key in type(parameters).model_fields})


def short_spec(name: str, parameters: ParameterSet) -> Spec:
    """The spec with only the parameters that differ from their defaults, for people."""
    changed = {
        key: _value(getattr(parameters, key))
        for key, field in type(parameters).model_fields.items()
        if getattr(parameters, key) != field.get_default(call_default_factory=True)
    }
    return Spec.of(name, changed)


def _value(value: Any) -> Value:
    if isinstance(value, list | tuple):
        return tuple(_value(item) for item in value)
    if value is None or isinstance(value, bool | int | float | str | Spec):
        return value
    return str(value)


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for a likely misspelling, else empty."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
