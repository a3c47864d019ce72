"""Texts of marks that one room sets and another one looks for."""

#: The method calls a service without a known version.
REMOTE = "remote"
#: Answers of an interrupted run were kept, from a service without a known version.
RESUMED = "resumed"
#: The service has its own catalogue: the dataset's tools were not sent to it, or it did not read them.
OWN_CATALOGUE = "own catalogue"
#: It cannot be determined here whether the service has read the dataset's tools.
CATALOGUE_NOT_KNOWN = "catalogue not known"
#: Names that the library lacks were left out of answers (`unknown=drop`).
NAMES_DROPPED = "names dropped"
#: Queries that were asked twice got different answers.
FLAKY = "flaky"
#: All queries got the same answer.
ALL_ALIKE = "all alike"
