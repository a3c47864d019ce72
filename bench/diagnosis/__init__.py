"""Diagnosis: why a query went as it did, what a ranking does with each tool, and what an edited description changes.

It is for those who edit descriptions or write methods. The verbs `explain` and `tools`, `bench.explain`,
`bench.Result.tools` and the pages of tools on the site call it.
"""
