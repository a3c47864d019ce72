"""The site's numbers as files for other programs: CSV, JSON, LaTeX, BibTeX."""
