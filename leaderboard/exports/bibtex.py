"""`methods.bib`: the papers of the datasets, from their cards, and of the methods, from their modules' first lines.

`write` calls it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.base.text import one_line
from bench.leaderboard.submit.code import names, values
from bench.registry import dataset_entry, method_class, method_names
from bench.results.store import StoredResult

_KEY = re.compile(r"@\w+\s*\{\s*([^\s,{}]+)\s*,")
#: `Gao et al. 2025, "Tool Graph Retriever: ...".` in a module's docstring.
_CITED = re.compile(r'^(?P<who>[A-Z][^"\n]*?)(?: (?P<year>(?:19|20)\d\d))?, "(?P<title>[^"]+)"\.?$', re.MULTILINE)
#: Characters that TeX would read as a command; plain titles contain none.
_SIGNS = {sign: "\\" + sign for sign in "&%$#_"} | {"\\": " ", "{": "", "}": "", "~": " ", "^": " "}


def methods_bib(results: Sequence[StoredResult]) -> str:
    """Every paper that a method or dataset of these results comes from, once each, sorted by key."""
    entries: dict[str, str] = {}
    for spec in sorted({result.manifest.dataset.spec for result in results}):
        try:
            paper = dataset_entry(parse(spec).name).card.paper
        except BenchError:
            continue
        match = _KEY.search(paper.bibtex) if paper else None
        if paper and match:
            entries.setdefault(match[1], paper.bibtex.strip())
    # A paper with both a dataset and a method is cited once, as on the card.
    known = _letters(" ".join(entries.values()))
    used = sorted({name for result in results for name in _methods(result)} & set(method_names()))
    for name in used:
        for key, title, entry in _of_method(name):
            if _letters(title) not in known:
                entries.setdefault(key, entry)
    return "\n\n".join(entries[key] for key in sorted(entries)) + ("\n" if entries else "")


def _methods(result: StoredResult) -> Iterator[str]:
    """The names of a result's method and of the methods it is built on; none for a run file."""
    if result.manifest.method.run_file is not None:
        return
    try:
        spec = parse(result.manifest.method.full_spec)
    except BenchError:
        return
    # A method without arguments is parsed as a word.
    yield from (*names(spec), *(value for value in values(spec) if isinstance(value, str)))


def _of_method(name: str) -> Iterator[tuple[str, str, str]]:
    """Key, title and entry of every paper that the docstring of a method's module cites."""
    try:
        module = method_class(name).__module__
    except BenchError:
        return
    for citation in _CITED.finditer(sys.modules[module].__doc__ or ""):
        title = _plain(citation["title"])
        who = _plain(citation["who"])
        first = re.sub(r"[^a-z]", "", who.split()[0].lower())
        word = next((part for part in re.findall(r"[a-z]+", title.lower()) if len(part) > 2), "paper")
        key = f"{first}{citation['year'] or ''}{word}"
        fields = {"title": f"{{{title}}}", "author": who.replace(" et al.", " and others")}
        if citation["year"]:
            fields["year"] = citation["year"]
        lines = ",\n".join(f"    {field} = {{{value}}}" for field, value in fields.items())
        yield key, title, f"@misc{{{key},\n{lines}\n}}"


def method_bib(name: str) -> str:
    """The papers that a method of this installation comes from; empty for others."""
    return "\n\n".join(entry for _, _, entry in _of_method(name)) if name in method_names() else ""


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _plain(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in one_line(text, 300))
