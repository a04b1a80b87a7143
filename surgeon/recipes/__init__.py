"""Recipes: edits and rules in order, in a file that replays on the next export of a model and says what differs."""
