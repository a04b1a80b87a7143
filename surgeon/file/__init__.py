"""The file: the only modules that know bytes."""
