"""The regression gate: a candidate against a blessed baseline, by a policy, with noise taken for what it is."""
