"""Running methods on datasets: plans, identities, stored results."""
