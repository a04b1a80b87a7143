"""A kind of model of another package: a box with the bytes of a model.

It imports the base class of kinds, and no module of surgeon knows of it: its package names it in the group
`surgeon.kinds`.
"""

from dataclasses import dataclass

from onnx import ModelProto

from surgeon.file.kinds import Kind


@dataclass(frozen=True)
class Box:
    """Somebody's own class of models."""

    data: bytes


class BoxKind(Kind):
    """A box, which is opened and packed again."""

    title = "a Box"

    def takes(self, source):
        return isinstance(source, Box)

    def exported(self, source):
        return ModelProto.FromString(source.data)

    def give(self, source, made, held):
        return Box(made.SerializeToString())


KIND = BoxKind()
