"""A recipe over many models: found in folders and stores, each in a process of its own, and what came of it."""
