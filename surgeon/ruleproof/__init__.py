"""A rule proved from itself: its patterns written out as small models, and each held against what takes its place."""
