"""Diagnosis: why a query was answered as it was, what happens to each tool, and what edits or a larger library change.

It is for those who edit descriptions, choose a library or write methods. The verbs `explain`, `tools` and `curve`,
`bench.explain`, `bench.Result.tools` and the pages of tools on the site call it.
"""
