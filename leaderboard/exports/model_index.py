"""A method's results as Hugging Face `model-index` metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from bench.results.store import Result
from bench.text import label, one_line

_HEADLINE = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "map@100", "tracc")


def model_index(
    method: str,
    results: Sequence[Result],
    marks: Mapping[str, Sequence[str]],
    links: Mapping[str, str],
    base: str | None,
) -> str:
    """The block of one method.

    Args:
        method: its name.
        results: its results, in the order of the entries.
        marks: result id -> its marks, which are shown next to a result's name.
        links: result id -> its page, relative to the site.
        base: address of the site; without it entries name no source.
    """
    lines = ["model-index:", f"- name: {_quoted(label(method))}", "  results:"]
    for result in results:
        data, manifest = result.manifest.dataset, result.manifest
        own = marks.get(manifest.result_id, ())
        title = f"{data.title} ({', '.join(own)})" if own else data.title
        lines += [
            "  - task:",
            '      type: "text-retrieval"',
            '      name: "Tool retrieval"',
            "    dataset:",
            f"      name: {_quoted(label(title))}",
            f"      type: {_quoted(label(data.spec))}",
            f"      split: {_quoted(data.split)}",
            f"      revision: {_quoted(data.content_hash)}",
            "    metrics:",
        ]
        for key in _HEADLINE:
            if key in result.metrics.metrics:
                lines += [
                    f"    - type: {_quoted(key.replace('@', '_at_'))}",
                    f"      name: {_quoted(key)}",
                    f"      value: {result.metrics.metrics[key].mean!r}",
                ]
        page = links.get(manifest.result_id)
        if base and page:
            lines += ["    source:", '      name: "bench"', f"      url: {_quoted(base + quote(page))}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as a double-quoted scalar: JSON's strings are YAML's, once nothing unprintable is in them."""
    return json.dumps(one_line(text, 300), ensure_ascii=False)
