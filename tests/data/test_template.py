"""Templates of tool text: the named ones of imported tools, and Jinja templates of users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.base.errors import UsageError
from bench.data.tables import Parameter, Tool, render_tool
from bench.data.template import MOST_SOURCE, TEMPLATES, read_template, template_name, valid_template

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string", "description": "Who gets it."}, "copies": {"type": "integer"}},
    "required": ["to"],
}
TOOL = Tool(
    "post/send",
    "send",
    "Sends a létter.",
    parent="post",
    parameters=(Parameter("to", "string", "Who gets it."), Parameter("copies", "integer", "", False)),
    returns='{"type": "object", "properties": {"id": {"type": "string"}}}',
    title="Send mail",
    annotations='{"readOnlyHint": false}',
    input_schema=json.dumps(SCHEMA),
)


def test_name_parameters_has_what_tool_searches_look_at() -> None:
    assert TOOL.text("name_parameters") == "send: Sends a létter., parameters: to: Who gets it.; copies"


def test_full_is_the_function_as_a_model_gets_it() -> None:
    function = {"name": "send", "description": "Sends a létter.", "parameters": SCHEMA}
    assert TOOL.text("full") == json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def test_full_makes_a_schema_of_the_parameters_where_there_is_none() -> None:
    tool = Tool("t", "t", "d", parameters=(Parameter("a", "string", "A.", True, '"x"'), Parameter("b", "", "", False)))
    assert json.loads(tool.text("full"))["function"]["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "A.", "default": "x"}, "b": {}},
        "required": ["a"],
    }


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ name }}: {{ description }}", "send: Sends a létter."),
        ("{{ id }}|{{ title }}|{{ category }}|{{ parent }}|{{ deprecated }}", "post/send|Send mail||post|False"),
        ("{% for p in parameters %}{{ p.name }}{{ '?' if not p.required }} {% endfor %}", "to copies? "),
        ("{{ schema.properties | length }} {{ schema.properties.to.type }}", "2 string"),
        ("{{ schema.properties | tojson }}", '{"copies": {"type": "integer"}, "to": {"description": "Who gets it.", '
                                            '"type": "string"}}'),
        ("{{ returns.properties.id.type }} {{ annotations.readOnlyHint }}", "string False"),
        ("{{ name | replace('e', '<b>') }}", "s<b>nd"),
    ],
)  # fmt: skip
def test_a_template_sees_the_fields_of_the_tool(template: str, text: str) -> None:
    assert read_template(template) == template
    assert TOOL.text(template) == text


def test_a_tool_of_another_dataset_has_the_same_fields() -> None:
    assert Tool("t", "t", "d").text("{{ title }}{{ annotations }}{{ returns }}{{ schema.type }}") == "{}Noneobject"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{{ nam }}", "fails on the tool post/send (UndefinedError: 'nam' is undefined)."),
        ("{{ schema.nothing.there }}", "fails on the tool post/send (UndefinedError: "),
        ("{{ name.__class__.__mro__ }}", "fails on the tool post/send (SecurityError: "),
        ("{{ ''.__class__ }}", "fails on the tool post/send (SecurityError: "),
        ("{{ schema.clear() }}", "fails on the tool post/send (SecurityError: "),
        ("{{ parameters[0].name.x }}", "UndefinedError"),
        ("{% for i in range(3) %}{{ i }}{% endfor %}", "'range' is undefined"),
        ("{{ 1 / 0 }}", "(ZeroDivisionError: division by zero)."),
        ("{% include '/etc/passwd' %}", "fails on the tool post/send (TypeError: no loader for this environment"),
        ("{% for a in name %}{% for b in name %}{{ name * 99999 }}{% endfor %}{% endfor %}",
         "makes more than 1048576 characters of the tool post/send."),
    ],
)  # fmt: skip
def test_a_template_that_fails_is_said_with_the_tool(template: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        render_tool(template, TOOL)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("nothing", "there is no template 'nothing'; use description, name_description, name_parameters, full, "),
        ("gone.j2", "there is no template file gone.j2."),
        ("{{ name }} \ud800", "the template jinja-"),
        ("{{ name }}" * MOST_SOURCE, "the template jinja-"),
        ("{{ name", "the template is not Jinja, line 1: "),
        ("a\n{% if %}", "the template is not Jinja, line 2: "),
        ("{{ name | nofilter }}", "the template is not Jinja, line 1: No filter named 'nofilter'"),
    ],
)
def test_what_is_no_template_is_refused(given: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_template(given)
    assert str(caught.value).startswith(sentence)


def test_a_misspelt_name_is_not_the_text_of_every_tool() -> None:
    with pytest.raises(UsageError, match="there is no template 'name_descripton'; use description, name_description"):
        TOOL.text("name_descripton")


def test_a_file_is_its_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.j2"
    path.write_bytes(b"\xef\xbb\xbf{{ name }}\r\n{{ title }}\r\n")
    assert read_template(str(path)) == "{{ name }}\n{{ title }}"
    path.write_bytes(b"no field")
    with pytest.raises(UsageError, match="uses no field of a tool"):
        read_template(str(path))
    path.write_bytes(b"\xff{{ name }}")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_template(str(path))
    path.write_bytes(b"{{ name }}" * MOST_SOURCE)
    with pytest.raises(UsageError, match="is larger than 64 KiB"):
        read_template(str(path))


def test_a_reader_sees_a_short_name_that_only_this_source_has() -> None:
    assert [template_name(name) for name in TEMPLATES] == list(TEMPLATES)
    one, other = template_name("{{ name }}"), template_name("{{ name }} ")
    assert one.startswith("jinja-")
    assert len({one, other, template_name("{{ id }}")}) == 3


@pytest.mark.parametrize("value", ["", "text", "descriptions", "x.j2", "{{ name }}" * MOST_SOURCE])
def test_a_record_holds_no_other_text(value: str) -> None:
    with pytest.raises(ValueError, match="Input should be 'description', 'name_description'"):
        valid_template(value)


@pytest.mark.parametrize(
    "template",
    [
        '{{ "x" * 2000000000 }}{{ name }}',
        "{{ name * 99999 * 99999 }}",
        "{{ 99999 * (99999 * name) }}",
        "{{ name }}\n{{ name.center(2000000000) }}",
        "{{ name | indent(2000000000) }}",
        "{{ '%2000000000d' % 1 }}{{ name }}",
        "{{ '{:>2000000000}'.format(name) }}",
        "{{ name * 10 ** 10 }}",
        "{% for p in parameters %}{{ p.name * 1e10 }}{% endfor %}",
    ],
)
def test_a_template_that_fills_the_memory_is_refused_before_it_is_compiled(template: str) -> None:
    for read, error in ((read_template, UsageError), (valid_template, ValueError)):
        with pytest.raises(error, match=r"makes more than 1048576 characters of any tool, or may \(line [12]\)"):
            read(template)


def test_weights_and_widths_of_usual_size_are_read() -> None:
    text = (
        "{{ name * 3 }} {{ '%40s' % name }} {{ description[:2000] | truncate(500) }} {{ '12345678:90123456' ~ name }}"
    )
    assert read_template(text) == valid_template(text) == text
