"""What the site shows: results grouped into boards, with ranks, tiers, means over datasets and marks. No HTML."""
