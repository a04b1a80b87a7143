"""A harness for tests of rules, with cases that fire and cases that do not.  See `Case`."""

from surgeon.authoring.testing import Case, check_fires, check_spares, parse

__all__ = ["Case", "check_fires", "check_spares", "parse"]
