"""Finding stored results by name, checking whether they are current, and removing them."""
