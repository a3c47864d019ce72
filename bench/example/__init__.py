"""The example that a team starts from: the verb `init` writes it, and its CI jobs install the bench that wrote it."""
