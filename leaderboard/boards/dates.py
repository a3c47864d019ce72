"""When results and baselines were made."""

from __future__ import annotations

import datetime

from bench.results.store import StoredResult

#: When what has no date was made: it was always there.
FIRST_DATE = datetime.datetime.min.replace(tzinfo=datetime.UTC)


def creation_time(result: StoredResult) -> datetime.datetime | None:
    """When a result was made, in UTC; none where its manifest has no date."""
    return moment(result.manifest.environment.created)


def moment(text: str) -> datetime.datetime | None:
    """A date and time in UTC, out of its ISO form; none where it is none."""
    try:
        parsed = datetime.datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None
