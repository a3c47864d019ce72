"""The lowest layer, used by all others: errors, text, settings, files, records, bounded HTTP requests, specs."""
