"""A model to walk about in: folded, drawn by a browser, asked for what is in it, selected from."""
