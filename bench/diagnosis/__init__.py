"""Diagnosis: why a query was answered as it was, what a ranking does with each tool, and the effect of edits.

It is for those who edit descriptions or write methods. The verbs `explain` and `tools`, `bench.explain`,
`bench.Result.tools` and the pages of tools on the site call it.
"""
