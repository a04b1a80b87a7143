"""A pattern, compiled, and the search for its matches."""

__all__ = [
    "anchors",
    "associative",
    "captured_tensor",
    "compiler",
    "listener",
    "match",
    "match_state",
    "matcher",
    "node_matchers",
    "op_requirements",
    "pattern",
    "removability",
    "shape_uses",
    "value_matchers",
    "visible_keys",
]
