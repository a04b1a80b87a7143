"""A model that may be changed freely: its skeleton is a copy, over the data of a file that stays as it is."""

import onnx

from surgeon.file.difference import difference
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.wire import Buffer


class Editable(Model):
    """What a model is to be: change its `skeleton` at will, and ask for the `patch` that turns the source into it.

    Tensors whose data were cut out keep their marks, wherever they go and whatever they are called then; their values
    are read from the source, and written by the kernel where their records stay in the message that they are in.

    source  the model as its file has it; it must stay open as long as this one
    """

    def __init__(self, source: Model) -> None:
        self.__dict__.update(source.__dict__)
        self.__dict__.pop("external_tensors", None)  # found out once for a model, and this one changes
        self.source = source
        self.skeleton = onnx.ModelProto()
        self.skeleton.CopyFrom(source.skeleton)

    @property
    def data(self) -> Buffer:
        """The bytes of the source."""
        return self.source.data

    @property
    def external_tensors(self) -> list[onnx.TensorProto]:
        """As of any model, as the skeleton is now."""
        return self.find_external()

    def speaks_of(self, word: bytes) -> bool:
        """Whether the word stands in the skeleton."""
        return word in self.skeleton.SerializeToString()

    def patch(self) -> Patch:
        """The least edits that turn the source into this; none where nothing was changed."""
        return difference(self.source, self.skeleton, self)
