"""Numbers of the protocol (`docs/protocol.md`), and names of facts, that settings, methods and results share."""

from __future__ import annotations

#: Depth of a ranking by default; what a bare `map` means.
DEFAULT_DEPTH = 100
#: With so many repeats, chance adds a hundredth of its variance to that of the queries: where that still shows, the
#: method is little but chance, and more queries are what is lacking. Time, memory and disk grow in proportion.
MOST_REPEATS = 100
#: The fact of a run that says how names were mapped.
MAPPED = "mapped_names"
#: The fact of a run that names fields of answers that mean nothing here.
UNREAD = "fields_not_read"
