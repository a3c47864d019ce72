"""`feed.xml`, an RSS 2.0 feed of rank changes and results, and `sitemap.xml`. Times are those of the results."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import format_datetime
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from bench.errors import UsageError
from bench.leaderboard.boards.history import Day, changes, created
from bench.leaderboard.boards.overall import Overall
from bench.results.store import Result
from bench.text import label, one_line

#: Results in the feed, and days that changed the ranking.
NEWEST = 100
_MOST_MOVES = 12
_NO_LINKS = "Items have no links: this site was built without its address (--base-url)."
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


@dataclass(frozen=True)
class _Item:
    """An item of the feed; `page` is relative to the site's root, empty where there is none."""

    at: datetime.datetime | None
    id: str
    title: str
    text: str
    category: str
    page: str


def feed_xml(
    results: Sequence[Result],
    marks: Mapping[str, Sequence[str]],
    links: Mapping[str, str],
    base: str | None,
    ranking: Overall | None = None,
) -> str:
    """The newest changes of the ranking and the newest results, by date.

    Args:
        results: in any order.
        marks: result id -> its marks.
        links: result id -> its page, relative to the site's root.
        base: address of the site; without it items have no links, because those of a feed are absolute.
        ranking: the one whose changes are told.
    """
    root = ElementTree.Element("rss", version="2.0")
    channel = ElementTree.SubElement(root, "channel")
    _text(channel, "title", "Tool retrieval: ranking and results")
    # RSS demands an address here: one that leads nowhere, rather than one that readers resolve to some other site.
    _text(channel, "link", base or "about:blank")
    about = "Changes of the ranking, and results of tool-retrieval methods under one protocol, newest first."
    _text(channel, "description", about if base else f"{about} {_NO_LINKS}")
    items = [_of_result(result, marks, links) for result in results]
    items = _newest(items) + _newest([] if ranking is None else [_of_day(day, ranking) for day in changes(ranking)])
    dates = [item.at for item in items if item.at is not None]
    if dates:
        _text(channel, "lastBuildDate", format_datetime(max(dates)))
    for own in _sorted(items):
        item = ElementTree.SubElement(channel, "item")
        _text(item, "title", own.title)
        if own.page and base:
            _text(item, "link", base + quote(own.page))
        _text(item, "description", own.text)
        _text(item, "category", own.category)
        guid = ElementTree.SubElement(item, "guid", isPermaLink="false")
        guid.text = one_line(own.id, 300)
        if own.at is not None:
            _text(item, "pubDate", format_datetime(own.at))
    return _document(root)


def _sorted(items: Sequence[_Item]) -> list[_Item]:
    first = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return sorted(sorted(items, key=lambda item: item.id), key=lambda item: item.at or first, reverse=True)


def _newest(items: Sequence[_Item]) -> list[_Item]:
    return _sorted(items)[:NEWEST]


def _of_result(result: Result, marks: Mapping[str, Sequence[str]], links: Mapping[str, str]) -> _Item:
    own = result.manifest.result_id
    summary, spec = _summary(result, marks.get(own, ())), result.manifest.dataset.spec
    return _Item(created(result), f"bench:result:{own}", label(result.label), summary, label(spec), links.get(own, ""))


def _of_day(day: Day, ranking: Overall) -> _Item:
    """What a day changed: who came first, and how ranks moved."""
    said = [
        f"{move.name} enters at {move.now}" if move.before is None else f"{move.name} from {move.before} to {move.now}"
        for move in day.moves
    ]
    more = f"; {len(said) - _MOST_MOVES} more" if len(said) > _MOST_MOVES else ""
    text = f"{'; '.join(said[:_MOST_MOVES])}{more}. {day.ranked} methods are ranked by their mean {ranking.metric}."
    text = _plain(text)
    entered = sum(move.before is None for move in day.moves)
    parts = [f"{entered} enter"] * bool(entered) + [f"{len(said) - entered} move"] * bool(len(said) - entered)
    date = "without a date" if day.at.year == 1 else f"{day.at:%Y-%m-%d}"
    # A day's moves may grow by later results of that day: what was read is told again if it has changed.
    own = hashlib.sha256(f"{ranking.view.name}\n{ranking.view.version}\n{date}\n{text}".encode()).hexdigest()[:16]
    title = f"Ranking, {date}: {' and '.join(parts)}"
    at = None if day.at.year == 1 else day.at
    return _Item(at, f"bench:ranking:{own}", title, text, label(ranking.view.title), "index.html")


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


def _summary(result: Result, marks: Sequence[str]) -> str:
    metrics = result.metrics
    parts = [f"{key} {metrics.metrics[key].mean:.3f}" for key in _HEADLINE if key in metrics.metrics]
    parts.append(f"{metrics.n} judged queries, {metrics.n_failed} failed")
    return _plain("; ".join([*parts, *marks]))


def _plain(text: str) -> str:
    """Some readers take what is escaped once for markup, so nothing may look like it."""
    return one_line(text, 1000).replace("<", "‹").replace(">", "›")


def _text(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = one_line(text, 1000)


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
