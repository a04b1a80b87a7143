"""Edits of whole models: what each does, that nothing else is touched, and what is refused."""
