"""Training the models that methods use, with a card of what each was trained on."""
