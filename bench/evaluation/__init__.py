"""Running methods on datasets: plans, answers, scores and checks before a run."""
