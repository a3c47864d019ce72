"""`feed.xml`, an RSS 2.0 feed of the newest results, and `sitemap.xml`. Times are those of the results."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from email.utils import format_datetime
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from bench.errors import UsageError
from bench.results.store import Result
from bench.text import label, one_line

#: Items of the feed.
NEWEST = 100
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
_MOST_PAGES = 50_000
_HEADLINE = ("recall@5", "ndcg@5", "pass@5", "recall@10")


def checked_base(base_url: str) -> str:
    """The address of a site, ending with a slash.

    Raises:
        UsageError: it is no http(s) address.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"{base_url!r} is not a site address: write https://example.org/board/.")
    return base_url if base_url.endswith("/") else base_url + "/"


def feed_xml(
    results: Sequence[Result], marks: Mapping[str, Sequence[str]], links: Mapping[str, str], base: str | None
) -> str:
    """The newest results first.

    Args:
        results: in any order.
        marks: result id -> its marks.
        links: result id -> its page, relative to the feed.
        base: address of the site; without it links are relative, which most readers resolve.
    """
    root = ElementTree.Element("rss", version="2.0")
    channel = ElementTree.SubElement(root, "channel")
    _text(channel, "title", "Tool retrieval results")
    _text(channel, "link", base or "index.html")
    _text(channel, "description", "Results of tool-retrieval methods under one protocol, newest first.")
    dated = [(created(result), result) for result in results]
    dates = [date for date, _ in dated if date is not None]
    if dates:
        _text(channel, "lastBuildDate", format_datetime(max(dates)))
    first = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    dated.sort(key=lambda item: item[1].manifest.result_id)
    dated.sort(key=lambda item: item[0] or first, reverse=True)
    for date, result in dated[:NEWEST]:
        manifest = result.manifest
        item = ElementTree.SubElement(channel, "item")
        _text(item, "title", label(result.label))
        if page := links.get(manifest.result_id):
            _text(item, "link", (base or "") + quote(page))
        _text(item, "description", _summary(result, marks.get(manifest.result_id, ())))
        _text(item, "category", label(manifest.dataset.spec))
        guid = ElementTree.SubElement(item, "guid", isPermaLink="false")
        guid.text = one_line(f"bench:result:{manifest.result_id}", 300)
        if date is not None:
            _text(item, "pubDate", format_datetime(date))
    return _document(root)


def sitemap_xml(pages: Sequence[str], base: str) -> str:
    """Every page of the site, sorted.

    Args:
        pages: paths relative to the site's root.
        base: address of the site, with its slash.
    """
    root = ElementTree.Element("urlset", xmlns=_SITEMAP)
    for page in sorted(set(pages))[:_MOST_PAGES]:
        _text(ElementTree.SubElement(root, "url"), "loc", base + quote(page))
    return _document(root)


def created(result: Result) -> datetime.datetime | None:
    """When a result was made, in UTC; none where its manifest has no date."""
    try:
        found = datetime.datetime.fromisoformat(result.manifest.environment.created)
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def _summary(result: Result, marks: Sequence[str]) -> str:
    metrics = result.metrics
    parts = [f"{key} {metrics.metrics[key].mean:.3f}" for key in _HEADLINE if key in metrics.metrics]
    parts.append(f"{metrics.n} judged queries, {metrics.n_failed} failed")
    # Some readers take what is escaped once for markup, so nothing here may look like it.
    return "; ".join([*parts, *marks]).replace("<", "‹").replace(">", "›")


def _text(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = one_line(text, 1000)


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
