"""The regression gate: non-inferiority tests of a candidate against a blessed baseline. `cli` and `api` call it."""
