"""Results as HTML: what a notebook shows of each, and whole pages that are sent to others."""
