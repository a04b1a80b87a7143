"""The part of protobuf's wire format that byte edits need."""

__all__ = ["byte_edits", "node_encoder", "payloads", "wire_format"]
