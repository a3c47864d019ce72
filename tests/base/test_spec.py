"""Specs: the text form is the identity, two spellings print the same, and errors point at the place."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UsageError
from bench.base.spec import Spec, Value, format_value, parse, parse_value

checked = settings(deadline=None, derandomize=True, max_examples=60)

names = st.from_regex(r"[\w./:+\-@%~*]+", fullmatch=True)
keys = st.from_regex(r"[A-Za-z_]\w*", fullmatch=True)
#: Any characters, and the texts that are easily taken for something else.
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.sampled_from('"\\/()[]=,. \n\t\x00\x7f\u2028é٣²🔧')),
    st.sampled_from(
        ["", "true", "false", "null", "1", "-0", "+5", ".5", "5.", "1e5", "1e999", "٣", "nan", "inf", "[]"]
    ),
    st.sampled_from(["a()", "dense(k=1)", " a", "a ", "9" * 30, '"a"', "None", "\\u0041"]),
)
numbers = st.one_of(st.integers(-(10**17), 10**18), st.floats(allow_nan=False, allow_infinity=False))
leaves: st.SearchStrategy[Value] = st.one_of(st.none(), st.booleans(), numbers, texts)


def specs_of(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Spec]:
    return st.builds(Spec.of, names, st.dictionaries(keys, values, max_size=4))


values: st.SearchStrategy[Value] = st.recursive(
    leaves, lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), specs_of(inner)), max_leaves=12
)
specs = specs_of(values)


@given(specs)
@checked
def test_a_spec_s_text_parses_to_the_spec(spec: Spec) -> None:
    read = parse(str(spec))
    assert read == spec
    # == takes 1, 1.0 and True for the same.
    assert repr(read) == repr(spec)
    assert str(read) == str(spec)


@given(values)
@checked
def test_a_value_s_text_parses_to_the_value(value: Value) -> None:
    assert repr(parse_value(format_value(value))) == repr(value)
    assert repr(parse(f"m(key={format_value(value)})").arguments) == repr((("key", value),))


@given(st.integers() | st.integers(-(10**25), 10**25))
@checked
def test_an_integer_of_any_length_is_read_back_or_refused(number: int) -> None:
    try:
        text = format_value(number)
    except UsageError:
        assert abs(number) > 2**53
        return
    assert parse_value(text) == number


@given(specs, st.randoms(use_true_random=False))
@checked
def test_the_order_in_which_arguments_are_given_does_not_matter(spec: Spec, random: Random) -> None:
    given_as = list(spec.arguments)
    random.shuffle(given_as)
    inner = ", ".join(f"{key}={format_value(value)}" for key, value in given_as)
    assert str(Spec.of(spec.name, dict(given_as))) == str(spec)
    assert str(parse(f"{spec.name}({inner})")) == str(spec)


@given(specs, st.sampled_from(["", " ", "\n\t "]))
@checked
def test_space_between_the_parts_does_not_matter(spec: Spec, space: str) -> None:
    inner = f"{space},{space}".join(f"{key}{space}={space}{format_value(value)}" for key, value in spec.arguments)
    assert parse(f"{space}{spec.name}{space}({space}{inner}{space}){space}") == spec


@given(specs, st.dictionaries(keys, leaves, max_size=3))
@checked
def test_arguments_laid_over_replace_and_add(spec: Spec, more: dict[str, Value]) -> None:
    laid = spec.with_arguments(more)
    assert laid.name == spec.name
    assert dict(laid.arguments) == {**dict(spec.arguments), **more}
    assert [key for key, _ in laid.arguments] == sorted({*dict(spec.arguments), *more})


@given(st.text(st.sampled_from('ab1.e-_ ()[]=,"\\\n٣\ud83d')) | st.text())
@settings(deadline=None, derandomize=True, max_examples=250)
def test_any_text_is_a_spec_with_one_canonical_form_or_refused_in_a_sentence(text: str) -> None:
    try:
        spec = parse(text)
    except UsageError as error:
        sentence = str(error)
        assert sentence.startswith("cannot read ")
        assert sentence.endswith(".")
        return
    assert repr(parse(str(spec))) == repr(spec)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("dense", "dense"),
        ("dense()", "dense"),
        ("  dense ( ) ", "dense"),
        ("my.module:Class", "my.module:Class"),
        ("tgr(graph=rules,base=dense)", "tgr(base=dense, graph=rules)"),
        ("tgr(base=dense(similarity=l2), alpha=1)", "tgr(alpha=1, base=dense(similarity=l2))"),
        ("tgr(base=dense())", "tgr(base=dense())"),
        ("rrf(methods=[bm25,dense( k = 1 )])", "rrf(methods=[bm25, dense(k=1)])"),
        ("m(a=[],b=[[]],c=[1,[2]])", "m(a=[], b=[[]], c=[1, [2]])"),
        ('m(a="plain", b="two words", c="true", d="1")', 'm(a=plain, b="two words", c="true", d="1")'),
        ("m(a=+1, b=007, c=-0)", "m(a=1, b=7, c=0)"),
        ("m(a=.5, b=5., c=1e3, d=-1E-7)", "m(a=0.5, b=5.0, c=1000.0, d=-1e-07)"),
        (r'm(a="\u00e9\n\"\/")', r'm(a="é\n\"/")'),
        ("m(a=/data/x.json, b=org/model@main)", "m(a=/data/x.json, b=org/model@main)"),
    ],
)
def test_two_spellings_of_the_same_spec_print_the_same(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "cannot read '': expected a name at character 1."),
        ("  ", "cannot read '  ': expected a name at character 3."),
        ("(a=1)", "cannot read '(a=1)': expected a name at character 1."),
        ("m(", "cannot read 'm(': expected an argument's name at character 3."),
        ("m(1=2)", "cannot read 'm(1=2)': expected an argument's name at character 3."),
        ("m(a)", "cannot read 'm(a)': expected '=' at character 4."),
        ("m(a:1)", "cannot read 'm(a:1)': expected '=' at character 4."),
        ("m(a=)", "cannot read 'm(a=)': expected a value at character 5."),
        ("m(a=1,)", "cannot read 'm(a=1,)': expected an argument's name at character 7."),
        ("m(a=1", "cannot read 'm(a=1': expected ',' or ')' at character 6."),
        ("m(a=1 b=2)", "cannot read 'm(a=1 b=2)': expected ',' or ')' at character 7."),
        ("m(a=[1 2])", "cannot read 'm(a=[1 2])': expected ',' or ']' at character 8."),
        ("m(a=[1,])", "cannot read 'm(a=[1,])': expected a value at character 8."),
        ('m(a="x)', "cannot read 'm(a=\"x)': expected a closing quote at character 5."),
        ('m(a="\\q")', "cannot read 'm(a=\"\\\\q\")': expected a valid JSON string before here at character 9."),
        ("m(a=1))", "cannot read 'm(a=1))': expected the end at character 7."),
        ("m n", "cannot read 'm n': expected the end at character 3."),
        ("m(a=1, b=2, a=3)", "cannot read 'm(a=1, b=2, a=3)': argument 'a' occurs twice."),
        ("m(a=n(b=1, b=1))", "cannot read 'm(a=n(b=1, b=1))': argument 'b' occurs twice."),
        (f"m(a={'x' * 200}!)", f"cannot read 'm(a={'x' * 113}...': expected ',' or ')' at character 205."),
    ],
)
def test_an_error_points_at_the_place(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == sentence


# Halves of surrogate pairs: file names that are not UTF-8 have them, and no manifest can hold them.


@given(specs, st.characters(categories=["Cs"]), st.randoms(use_true_random=False))
@checked
def test_half_a_surrogate_pair_anywhere_in_a_spec_is_refused(spec: Spec, half: str, random: Random) -> None:
    text = str(spec)
    place = random.randrange(len(text) + 1)
    with pytest.raises(UsageError, match=r"^cannot read .*: it is not valid Unicode; .*UTF-8\.$"):
        parse(text[:place] + half + text[place:])


@pytest.mark.parametrize("text", [r'm(a="\ud83d")', r'm(a="\ude00\ud83d")', r'm(a=n(b=["x\udcff"]))'])
def test_half_a_surrogate_pair_that_is_spelled_out_is_refused_too(text: str) -> None:
    with pytest.raises(UsageError, match=r"^cannot read "):
        parse(text)


@pytest.mark.parametrize(
    "text", ["\udcff", "/data/gr\udcf6\udcdfe", '"\udcff"', r'"\udcff"', "[a, b\udcff]", "m(a=\udcff)"]
)
def test_half_a_surrogate_pair_on_the_command_line_makes_no_spec(text: str) -> None:
    # Every spec is read again from its text before anything runs.
    with pytest.raises(UsageError, match=r"^cannot read "):
        parse(str(Spec.of("m", {"a": parse_value(text)})))


def test_a_whole_surrogate_pair_that_is_spelled_out_is_its_character() -> None:
    assert str(parse(r'm(a="\ud83d\udd27")')) == 'm(a="🔧")'


def test_specs_may_nest_20_deep_and_no_deeper() -> None:
    parse("m(a=" * 20 + "1" + ")" * 20)
    parse_value("[" * 20 + "1" + "]" * 20)
    for text in ("m(a=" * 21 + "1" + ")" * 21, "m(a=" + "[" * 20 + "1" + "]" * 20 + ")", "m(a=" * 5000):
        with pytest.raises(UsageError, match="nested deeper than 20 levels"):
            parse(text)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_has_no_text(number: float) -> None:
    with pytest.raises(UsageError, match=f"a spec cannot hold the number {number}"):
        str(Spec.of("m", {"a": number}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dense", "dense"),
        (" dense ", " dense "),
        ("5", 5),
        (" 5 ", 5),
        ("5.0", 5.0),
        ("-1e-3", -0.001),
        ("true", True),
        ("null", None),
        ("True", "True"),
        ("1e999", "1e999"),
        ("nan", "nan"),
        ("", ""),
        ("/data/my model/x", "/data/my model/x"),
        # What E5 models want before a query: the space counts.
        ("query: ", "query: "),
        ("Represent this (short) query for search:", "Represent this (short) query for search:"),
        ('say "x"', 'say "x"'),
        ("a, b", "a, b"),
        ("a=1", "a=1"),
        ('"5"', "5"),
        ('" two words "', " two words "),
        ("[bm25, dense]", ("bm25", "dense")),
        (" [1, 2.0] ", (1, 2.0)),
        ("[]", ()),
        ("dense()", Spec("dense")),
        ("dense(similarity=l2)", Spec.of("dense", {"similarity": "l2"})),
        ("dense(\n  similarity=l2\n)", Spec.of("dense", {"similarity": "l2"})),
        ("9" * 30, 10**30 - 1),
        ("9" * 2000, "9" * 2000),
    ],
)
def test_a_value_on_the_command_line(text: str, value: Value) -> None:
    assert repr(parse_value(text)) == repr(value)


@pytest.mark.parametrize("text", ["[bm25, dense", '"unclosed', "dense(similarity)", '"a" b', "[1] 2", "[two words]"])
def test_a_broken_list_string_or_spec_on_the_command_line_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^cannot read .* at character \d+\.$"):
        parse_value(text)


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: not set(text) & set('()["')))
@checked
def test_plain_text_on_the_command_line_needs_no_quotes(text: str) -> None:
    value = parse_value(text)
    if isinstance(value, str):
        assert value == text
    else:
        assert repr(value) == repr(parse(f"m(a={text})").arguments[0][1])


def test_specs_with_the_same_arguments_are_equal_and_hash_alike() -> None:
    one, other = parse("m(a=1, b=[x])"), parse("m(b=[x], a=1)")
    assert one == other
    assert hash(one) == hash(other)
