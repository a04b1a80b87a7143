"""Results printed to a terminal."""

__all__ = ["console", "rule_manual", "sanitise", "terminal_renderer"]
