"""Models: encoders, cross-encoders, classifiers, causal language models and embedding endpoints."""
