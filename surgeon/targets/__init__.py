"""Where models are to run: a target a file, each a value `TARGET` that `--target` finds by the name of its module.

A target of somebody else is such a value too, named by an entry point of the group `surgeon.targets`.
"""
