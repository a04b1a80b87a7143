"""Attention as one node, with a mask, a cache or grouped heads."""
