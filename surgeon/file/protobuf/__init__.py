"""The wire format of protobuf, as far as a change of some bytes needs it."""

__all__ = ["byte_edits", "node_encoder", "payloads", "wire_format"]
