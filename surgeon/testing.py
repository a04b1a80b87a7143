"""A harness for the tests of rules: where they fire, where they do not and why; see `Case`."""

from surgeon.authoring.testing import Case, check_fires, check_spares, parse

__all__ = ["Case", "check_fires", "check_spares", "parse"]
