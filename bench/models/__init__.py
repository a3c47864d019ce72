"""Models: encoders, cross-encoders, classifiers, language models and embedding endpoints. Methods call them."""
