"""Edits of whole models: the model under edit, the driver that applies edits, and what shows that they did no harm."""
