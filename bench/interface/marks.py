"""Marks of results that one room gives and another looks for, by their texts."""

#: The method asks a service of which no version is given.
REMOTE = "remote"
#: Answers of a run that was broken off were kept, of a service of which no version is given.
RESUMED = "resumed"
#: What was asked has its own catalogue: the tools of the dataset were not sent to it, or it did not read them.
OWN_CATALOGUE = "own catalogue"
#: Whether what was asked has read the tools of the dataset cannot be found out here.
CATALOGUE_NOT_KNOWN = "catalogue not known"
#: Names that the library lacks were left out of answers (`unknown=drop`).
NAMES_DROPPED = "names dropped"
#: Queries that were asked twice were answered differently.
FLAKY = "flaky"
#: All queries got the same answer.
ALL_ALIKE = "all alike"
