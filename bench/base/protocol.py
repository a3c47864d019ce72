"""Constants of the protocol (`docs/protocol.md`) and names of facts, shared by settings, methods and results."""

from __future__ import annotations

#: Default depth of a ranking, and the cutoff of `map` without one.
DEFAULT_DEPTH = 100
#: With this many repeats, randomness adds a hundredth of its variance to the variance between queries. If that still
#: matters, the method is mostly random, and more queries would help more. Time, memory and disk grow in proportion.
MOST_REPEATS = 100
#: The fact of a run about the mapping of names.
MAPPED = "mapped_names"
#: The fact of a run that lists fields of answers that are not read.
UNREAD = "fields_not_read"
