"""Declared parameters: what is refused and in which sentence, and the specs that are written back."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet, check_parameters, full_spec, short_spec, suggestion
from bench.base.spec import Spec, Value, parse


class Example(ParameterSet):
    base: MethodSpec = Spec("dense")
    count: int = Field(3, ge=1, description="how many")
    weight: float = 1.0
    kind: Literal["one", "two"] = "one"
    prompt: str = ""
    on: bool = False
    weights: tuple[float, ...] = (1.0,)
    methods: tuple[MethodSpec, ...] = (Spec("bm25"), Spec("dense"))
    most: int | None = None


class Demanding(ParameterSet):
    folder: str
    base: MethodSpec


class Nothing(ParameterSet):
    pass


def example(text: str) -> Example:
    return check_parameters(Example, parse(text), "method")


def refusal(text: str, model: type[ParameterSet] = Example) -> str:
    with pytest.raises(UsageError) as caught:
        check_parameters(model, parse(text), "method")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "m(cuont=1)",
            "method m has no parameter 'cuont' (did you mean 'count'?); its parameters: "
            "base, count, weight, kind, prompt, on, weights, methods, most.",
        ),
        (
            "m(zzz=1)",
            "method m has no parameter 'zzz'; its parameters: "
            "base, count, weight, kind, prompt, on, weights, methods, most.",
        ),
        ("m(count=0)", "parameter 'count' of method m is 0: input should be greater than or equal to 1."),
        (
            "m(count=many)",
            "parameter 'count' of method m is 'many': "
            "input should be a valid integer, unable to parse string as an integer.",
        ),
        (
            "m(count=1.5)",
            "parameter 'count' of method m is 1.5: "
            "input should be a valid integer, got a number with a fractional part.",
        ),
        ("m(kind=three)", "parameter 'kind' of method m is 'three': input should be 'one' or 'two'."),
        ("m(prompt=5)", "parameter 'prompt' of method m is 5: input should be a valid string."),
        ("m(weights=1)", "parameter 'weights' of method m is 1: input should be a valid tuple."),
        (
            "m(weights=[1, x])",
            "parameter 'weights.1' of method m is 'x': "
            "input should be a valid number, unable to parse string as a number.",
        ),
        (
            "m(base=5)",
            "parameter 'base' of method m is 5: must name a method, as in base=dense or base=dense(similarity=l2).",
        ),
        (
            "m(methods=[bm25, 5])",
            "parameter 'methods.1' of method m is 5: "
            "must name a method, as in base=dense or base=dense(similarity=l2).",
        ),
    ],
)
def test_a_wrong_parameter_is_refused_in_a_sentence_that_says_what_is_allowed(text: str, sentence: str) -> None:
    assert refusal(text) == sentence


def test_the_kind_of_thing_is_named() -> None:
    with pytest.raises(UsageError, match=r"^dataset rectools has no parameter 'a'; its parameters: none\.$"):
        check_parameters(Nothing, parse("rectools(a=1)"), "dataset")


def test_a_parameter_that_must_be_given_is_said_to_be_missing() -> None:
    sentence = refusal("m(base=dense)", Demanding)
    assert "'folder'" in sentence
    assert "required" in sentence
    assert "{" not in sentence, "the other parameters are not its value"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("m(prompt=x(y=1))", "x(y=1)"), ("m(count=[1, a])", "[1, a]"), ("m(count=null)", "null"), ("m(on=z)", "z")],
)
def test_a_wrong_value_is_shown_as_it_is_written(text: str, shown: str) -> None:
    sentence = refusal(text)
    assert shown in sentence
    assert "Spec(" not in sentence


def test_a_wrong_method_spec_in_quotes_points_at_its_place_in_one_sentence() -> None:
    sentence = refusal('m(base="dense(k")')
    assert sentence.startswith("parameter 'base' of method m is 'dense(k': cannot read 'dense(k': expected '='")
    assert sentence.endswith("at character 8.")


@pytest.mark.parametrize("text", ["m(weight=1e400)", "m(weight=inf)", "m(weight=nan)"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    assert "parameter 'weight' of method m" in refusal(text)


def test_values_become_the_declared_types() -> None:
    read = example("m(weight=2, weights=[1, 2], count=4.0, most=5, on=true, methods=[bm25, dense(k=1)], base=tfidf)")
    assert repr(read.weight) == "2.0"
    assert repr(read.weights) == "(1.0, 2.0)"
    assert repr(read.count) == "4"
    assert read.most == 5
    assert read.on is True
    assert read.methods == (Spec("bm25"), Spec.of("dense", {"k": 1}))
    assert read.base == Spec("tfidf")


@pytest.mark.parametrize("text", ["m(base=tfidf)", "m(base=tfidf())", 'm(base="tfidf")', 'm(base="tfidf()")'])
def test_a_method_may_be_named_bare_or_with_parentheses_or_quoted(text: str) -> None:
    assert example(text).base == Spec("tfidf")


def test_a_parameter_set_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        example("m").count = 5  # type: ignore[misc]


def test_a_name_alone_means_the_defaults() -> None:
    assert example("m") == Example()
    assert str(short_spec("m", example("m"))) == "m"


def test_the_full_spec_spells_out_every_parameter() -> None:
    assert str(full_spec("m", Example())) == (
        'm(base=dense(), count=3, kind=one, methods=[bm25(), dense()], most=null, on=false, prompt="", '
        "weight=1.0, weights=[1.0])"
    )
    assert str(full_spec("m", Nothing())) == "m"


def test_the_short_spec_names_what_differs_from_the_defaults() -> None:
    text = 'm(weight=2, count=3, on=false, base=dense(similarity=l2), weights=[], prompt="a b")'
    assert str(short_spec("m", example(text))) == ('m(base=dense(similarity=l2), prompt="a b", weight=2.0, weights=[])')


def test_two_spellings_have_one_short_and_one_full_spec() -> None:
    one, other = example("m(weight=2.0, count=1)"), example("m( count = 1 , weight = 2 )")
    assert short_spec("m", one) == short_spec("m", other)
    assert full_spec("m", one) == full_spec("m", other)


ARGUMENTS: dict[str, st.SearchStrategy[Value]] = {
    "base": st.sampled_from([Spec("dense"), Spec("tfidf"), Spec.of("dense", {"similarity": "l1"})]),
    "count": st.integers(1, 10),
    "weight": st.floats(-10, 10) | st.integers(-3, 3),
    "kind": st.sampled_from(["one", "two"]),
    "prompt": st.text(),
    "on": st.booleans(),
    "weights": st.lists(st.floats(0, 1), max_size=3).map(tuple),
    "methods": st.lists(st.sampled_from([Spec("bm25"), Spec("dense")]), max_size=3).map(tuple),
    "most": st.none() | st.integers(0, 5),
}


@given(st.fixed_dictionaries({}, optional=ARGUMENTS))
@settings(deadline=None, derandomize=True)
def test_the_written_specs_give_the_parameters_back(arguments: dict[str, Value]) -> None:
    parameters = check_parameters(Example, Spec.of("m", arguments), "method")
    short, full = short_spec("m", parameters), full_spec("m", parameters)
    assert check_parameters(Example, parse(str(short)), "method") == parameters
    assert check_parameters(Example, parse(str(full)), "method") == parameters
    assert {key for key, _ in full.arguments} == set(Example.model_fields)
    assert dict(short.arguments).keys() == {
        key for key in Example.model_fields if getattr(parameters, key) != getattr(Example(), key)
    }


def test_parameters_can_be_stored_as_json_with_methods_as_text() -> None:
    stored = example("m(base=dense(similarity=l2))").model_dump(mode="json")
    assert stored["base"] == "dense(similarity=l2)"
    assert stored["methods"] == ["bm25", "dense"]
    assert Example.model_validate(stored) == example("m(base=dense(similarity=l2))")


@pytest.mark.parametrize(
    ("word", "hint"),
    [("bm52", " (did you mean 'bm25'?)"), ("desne", " (did you mean 'dense'?)"), ("xyz", ""), ("", "")],
)
def test_a_likely_misspelling_is_suggested(word: str, hint: str) -> None:
    assert suggestion(word, ["bm25", "dense", "tfidf"]) == hint
