"""The commands, one per file, each imported when it is called."""
