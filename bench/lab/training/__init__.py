"""Training models for methods, each with a card of its training data. `bench train` calls it."""
