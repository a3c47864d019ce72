"""The pages of the documentation site: the generated reference is whole, and every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from kit.programs import program

import bench
from bench.cli import cli
from bench.evaluation.ask import _LATENCY_QUERIES
from bench.gating.budgets import FEWEST_TIMED
from bench.metrics import measures
from bench.registry import dataset_entries, method_names
from bench.registry.differences import Differences, differences, with_differences

ROOT = Path(bench.__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of pages."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    program("docs/pages.py").write_site(folder)
    return folder


def headings(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"^##+ (.*)$", text, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What the parts of a page are reached by: its headings, on GitHub and on the site, and names of the API."""
    named = set(re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE))
    return named | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def test_every_method_metric_dataset_and_command_has_its_part(site: Path) -> None:
    reference = site / "reference"
    assert headings(reference / "methods.md") == method_names()
    assert headings(reference / "metrics.md") == list(measures())
    assert headings(reference / "datasets.md") == list(dataset_entries())
    commands = headings(reference / "commands.md")
    assert {f"bench {name}" for name in cli.list_commands(click.Context(cli))} <= set(commands)
    assert "bench data add" in commands


def test_a_parameter_is_told_with_its_type_default_and_description(site: Path) -> None:
    text = (site / "reference" / "methods.md").read_text("utf-8")
    assert "| `k1` | number | `1.2` | term-frequency saturation (k1) |" in text
    assert "| `tokens` | words or whitespace | `words` | tokenisation |" in text


def test_what_differs_from_the_papers_is_told_as_it_is_kept(site: Path) -> None:
    page = site / "reference" / "differences.md"
    text = page.read_text("utf-8")
    assert headings(page) == with_differences()
    assert text.count("| aspect | paper | released code | here | why |") == len(with_differences())
    shown = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    kept = [row.aspect for name in with_differences() for row in table_of(name).rows]
    assert [cell for cell in shown if cell not in {"aspect", "---"}] == kept
    assert "| m\\_s = 10 for seen and m\\_u = 50 for unseen tools, both counted in the one retrieved list. |" in text
    for name in with_differences():
        assert f"(differences.md#{name})" in (site / "reference" / "methods.md").read_text("utf-8")


@pytest.mark.parametrize("name", with_differences())
def test_commands_and_files_in_what_differs_are_there(name: str) -> None:
    told = [code for row in table_of(name).rows for code in re.findall(r"`([^`]+)`", row.here + row.why)]
    for code in told:
        if code.startswith(("bench/", "benchmarks/")):
            assert (ROOT / code).is_file(), code
        elif code.startswith("bench "):
            parsed(shlex.split(code)[1:], name)


def table_of(name: str) -> Differences:
    """A table that is there."""
    table = differences(name)
    assert table is not None
    return table


def test_a_dataset_is_told_with_its_unit_of_independence(site: Path) -> None:
    text = (site / "reference" / "datasets.md").read_text("utf-8")
    assert (
        "| unit of independence | gold+group, 269 judged queries in 71 units, at most 13 in one (effective 47.0)."
        in text
    )
    assert text.count("| unit of independence | ") == len(dataset_entries())


def names_in_table(page: Path, head: str) -> list[set[str]]:
    """The names in the first column of a table, row by row."""
    lines = page.read_text("utf-8").splitlines()
    first = lines.index(head) + 2
    return [set(re.findall(r"`([\w-]+)`", line.split("|")[1])) for line in lines[first : lines.index("", first)]]


def test_the_guide_to_methods_lists_methods_that_are_there() -> None:
    rows = names_in_table(ROOT / "docs" / "methods.md", "| methods | idea |")
    assert {name for row in rows for name in row} <= set(method_names())


def test_the_guide_to_datasets_lists_datasets_with_the_tools_that_their_cards_count() -> None:
    page = ROOT / "docs" / "datasets.md"
    head = "| datasets | what they are |"
    rows = names_in_table(page, head)
    assert {name for row in rows for name in row} <= set(dataset_entries())
    lines = page.read_text("utf-8").splitlines()
    told = 0
    for names, line in zip(rows, lines[lines.index(head) + 2 :], strict=False):
        counts = {str(entry.card.counts.tools) for name in names if (entry := dataset_entries()[name]).card.counts}
        for number in re.findall(r"([\d,]+) tools", line):
            assert number.replace(",", "") in counts, line
            told += 1
    assert told > 5


def test_the_index_of_studies_lists_each_once_with_its_question() -> None:
    folder = ROOT / "docs" / "studies"
    listed = re.findall(r"^\| (.*\?) \| \[.*\]\((.*)\) \|$", (folder / "index.md").read_text("utf-8"), re.MULTILINE)
    headings_of = {path.name: path.read_text("utf-8").splitlines()[0] for path in folder.glob("2*.md")}
    assert {name: f"# {question}" for question, name in listed} == headings_of
    assert len(listed) == len(headings_of)


@pytest.mark.parametrize("study", sorted(path.name for path in (ROOT / "docs" / "studies").glob("2*.md")))
def test_a_study_has_the_date_and_commit_of_its_numbers(study: str) -> None:
    text = (ROOT / "docs" / "studies" / study).read_text("utf-8")
    assert re.match(r"# .*\?\n\n\*Measured \d{4}-\d\d-\d\d.*\b[0-9a-f]{8}\b.*\*\n", text)
    assert "**Result.**" in text


def test_every_public_name_is_on_a_page_of_the_api(site: Path) -> None:
    text = "".join(page.read_text("utf-8") for page in (site / "api").glob("*.md"))
    assert sorted(re.findall(r"^::: bench\.(?:api\.listing\.)?(\w+)$", text, re.MULTILINE)) == sorted(bench._exports())


def test_every_link_between_files_leads_to_a_place_of_the_site(site: Path) -> None:
    links = 0
    for page in site.rglob("*.md"):
        if "files" in page.relative_to(site).parts[:1]:
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", text):
            if not re.match(r"[a-z]+:", target):
                result = (page.parent / target).resolve() if target else page
                assert result.is_file(), f"{page.relative_to(site)}: {target}"
                assert result.is_relative_to(site.resolve())
                assert not anchor or anchor in anchors(result), f"{page.relative_to(site)}: {target}#{anchor}"
                links += 1
    assert links > 20


def test_links_to_the_generator_lead_to_the_reference(site: Path) -> None:
    text = (site / "methods.md").read_text("utf-8")
    assert "[reference](reference/methods.md)" in text
    assert not (site / "files" / "docs" / "pages.py").exists()


def test_commands_in_guides_have_these_verbs_and_options() -> None:
    shown = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        code = "\n".join(text for language, text in fences if language in {"", "yaml"})
        for line in re.sub(r"\\\n\s*", "", code).splitlines():
            typed = re.sub(r"\s#.*|\s{4,}.*|^(- )?(\w+: )?(\$ )?", "", line.strip())
            for part in re.split(r"&&|\|\|", typed):
                if part.strip().startswith("bench "):
                    parsed(shlex.split(part)[1:], page.name)
                    shown += 1
    assert shown > 80


def parsed(words: list[str], page: str) -> None:
    """Refuse a verb or an option that the command line does not have; arguments are not looked at."""
    command: click.Command = cli
    context = click.Context(cli, info_name="bench")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"{page}: bench … {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    try:
        command.make_parser(context).parse_args(words)
    except click.UsageError as error:
        pytest.fail(f"{page}: {command.name} {shlex.join(words)}: {error.format_message()}")


def test_guides_say_how_many_queries_are_timed(site: Path) -> None:
    timed, text = (" ".join((site / name).read_text("utf-8").split()) for name in ("results.md", "gate.md"))
    assert f"up to {_LATENCY_QUERIES} " in timed
    assert f"at least {FEWEST_TIMED} queries were timed" in text


def test_links_out_of_docs_are_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = program("docs/pages.py")
    repository = tmp_path / "repository"
    (repository / "docs" / "deep").mkdir(parents=True)
    (repository / "board").mkdir()
    (repository / "board" / "gate.toml").write_text("x = 1\n")
    (repository / "README.md").write_text("[a](docs/a.md#part) [web](https://example.org/docs/a.md)")
    (repository / "NEWS.md").write_text("[r](README.md)")
    (repository / "docs" / "a.md").write_text("[r](../README.md) [n](../NEWS.md) [g](../board/gate.toml) [?](no.md)")
    (repository / "docs" / "deep" / "b.md").write_text("[a](../a.md)")
    monkeypatch.setattr(pages, "ROOT", repository)
    pages.write_site(tmp_path / "out")
    out = tmp_path / "out"
    by_key = {path.relative_to(out).as_posix(): path.read_text("utf-8") for path in out.rglob("*.*")}
    assert by_key["index.md"] == "[a](a.md#part) [web](https://example.org/docs/a.md)"
    assert by_key["NEWS.md"] == "[r](index.md)"
    assert by_key["a.md"] == "[r](index.md) [n](NEWS.md) [g](files/board/gate.toml) [?](no.md)"
    assert by_key["deep/b.md"] == "[a](../a.md)"
    assert by_key["files/board/gate.toml"] == "x = 1\n"
