"""Diagnosis: why a query went as it did, what happens to each tool, and what an edit or a larger library changes.

It is for those who edit descriptions, choose a library or write methods. The verbs `explain`, `tools` and `curve`,
`bench.explain`, `bench.Result.tools` and the pages of tools on the site call it.
"""
