"""Rules: patterns, how they are matched, and how a replacement is built and put into the graph.

It runs no model, so it must not import `proof` or anything above.  Start with `rule.py`, `matching/pattern.py` and
`replacing/splicer.py`.
"""

__all__ = [
    "catalogue",
    "choices",
    "definition_checks",
    "edit_aliases",
    "functions",
    "fused_families",
    "lowering",
    "matching",
    "mismatches",
    "op_table",
    "pattern_containment",
    "plugin_rule",
    "replacing",
    "rule",
    "searches",
    "tracing",
]
