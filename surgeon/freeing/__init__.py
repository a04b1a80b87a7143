"""Sizes that a file fixes and a draft frees: where the number came from, and how what holds it follows."""
