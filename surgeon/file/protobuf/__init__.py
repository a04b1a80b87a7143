"""The wire format of protobuf, as far as byte edits need it."""

__all__ = ["byte_edits", "node_encoder", "payloads", "wire_format"]
