"""What the site shows: results grouped into boards, with ranks, means over datasets and marks. No HTML."""
