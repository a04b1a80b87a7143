"""The shape rule of each op, by kind of op."""

__all__ = ["control_flow", "creation", "data_movement", "indexing", "rule_table", "sequences"]
