"""A starter example for teams: the verb `init` writes it, and its CI jobs install the bench that wrote it."""
