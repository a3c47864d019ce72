"""What everything stands on: errors, text, settings, files, records, HTTP within bounds, specs."""
