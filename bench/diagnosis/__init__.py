"""Diagnosis: why a query was answered as it was, what happens to each tool, and what edits change.

It is for those who edit descriptions or write methods. The verbs `explain` and `tools`, `bench.explain`,
`bench.Result.tools` and the pages of tools on the site call it.
"""
