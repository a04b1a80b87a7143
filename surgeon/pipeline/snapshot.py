"""The model between two transforms; it has a file only while a runtime needs one."""

from contextlib import ExitStack
from pathlib import Path

import onnx

from surgeon.file.editable_model import EditableModel
from surgeon.file.external_data.self_reference import file_referencing_model, self_referencing_model
from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model


class Snapshot:
    """A model that no longer changes.

    model   the source, or a draft over it
    """

    def __init__(self, model: Model, output: Path | None, stack: ExitStack, made: OutputModel | None = None) -> None:
        """output: path of the final result.  stack: removes the file.  made: the model for a runtime, if it exists."""
        self.model, self._output, self._stack, self._made = model, output, stack, made
        self._result: onnx.ModelProto | None = None  # in memory, with tensors that a runtime cannot read

    @property
    def opened(self) -> OutputModel | Model:
        """The written model if it exists, else the model."""
        made = self._made if self._result is None else self._result
        return self.model if made is None else made

    @property
    def written(self) -> OutputModel | None:
        """The model for a runtime if it exists."""
        return self._made

    def runnable(self) -> OutputModel:
        """The model for a runtime: in memory, or as a file that is removed when the run ends."""
        if self._made is None and self.model.path is None:
            self._made = self.model.made_from(self._bytes())
        elif self._made is None and isinstance(self.model, EditableModel):
            model = self.model
            self._made = self._stack.enter_context(temporary_model(model.source, model.patch, self._output))
        elif self._made is None:
            self._made = self.model.runnable()
        return self._made

    def _bytes(self) -> bytes:
        """The model from memory as bytes, in which tensors of other objects are references."""
        if self._result is not None:
            return bytes(self._result.SerializeToString())
        if isinstance(self.model, EditableModel):
            return self.model.patch(self._output, whole=True).apply()
        return bytes(self.model.data)

    def loadable(self) -> tuple[OutputModel, Path | None]:
        """The model for a runtime that only loads it, and the folder of its data: without a file if possible."""
        if self._made is None and self.model.held and self.model.path is None:
            self.model.check_data()
            made = onnx.ModelProto.FromString(self._bytes())
            folder = file_referencing_model(made, self.model.held)
            return (self.runnable(), None) if folder is None else (made, folder)
        is_light = isinstance(self.model, EditableModel) and self._made is None and not self.model.files
        light: onnx.ModelProto | None = self_referencing_model(self.model) if is_light else None
        if light is None or self.model.path is None:
            return self.runnable(), None
        return light, self.model.path.parent

    def node_count(self) -> int | None:
        """The nodes of the model, functions inlined and bodies included, if they are known without reading it."""
        return self.model.node_count() if isinstance(self.model, EditableModel) else None

    def written_at(self, path: OutputModel | None) -> None:
        """Record the file or the model in memory that this model was written to; None if it is gone."""
        if isinstance(path, onnx.ModelProto) and self.model.held:
            self._made, self._result = None, path
        else:
            self._made, self._result = path, None
