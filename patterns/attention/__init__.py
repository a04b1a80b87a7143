"""Attention, with a mask, a cache or grouped heads, as one node."""
