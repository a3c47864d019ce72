"""The regression gate: non-inferiority tests of a candidate against a blessed baseline."""
