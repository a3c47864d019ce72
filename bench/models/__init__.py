"""Models: encoders, cross-encoders, classifiers, causal models, endpoints; their files, tokens and training cards."""
