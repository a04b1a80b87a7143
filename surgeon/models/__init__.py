"""Runs of whole models held against each other: what both answer, how much of it tells something, who is at fault."""
