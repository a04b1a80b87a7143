"""The part of protobuf's wire format that byte edits need."""

__all__ = ["byte_edits", "node_encoder", "node_order", "payloads", "wire_format"]
