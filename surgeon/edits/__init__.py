"""Edits of whole models, each a value: `surgeon.edit(model, [surgeon.edits.Rename("images", "pixels")])`.

An edit of somebody else is a subclass of `Edit`, named by an entry point of the group `surgeon.edits`.
"""

from surgeon.editing.draft import ModelClaim as ModelClaim
from surgeon.editing.draft import ModelDraft as ModelDraft
from surgeon.editing.edit import Edit as Edit
from surgeon.edits.best_boxes import AppendBestBoxes as AppendBestBoxes
from surgeon.edits.best_boxes import AppendBoxes as AppendBoxes
from surgeon.edits.detections import AppendEfficientNms as AppendEfficientNms
from surgeon.edits.detections import AppendNms as AppendNms
from surgeon.edits.detector_tails import detector_tail as detector_tail
from surgeon.edits.dims import Dim as Dim
from surgeon.edits.dims import JoinDim as JoinDim
from surgeon.edits.dims import RenameDim as RenameDim
from surgeon.edits.extract import Extract as Extract
from surgeon.edits.free import Free as Free
from surgeon.edits.heads import AppendArgMax as AppendArgMax
from surgeon.edits.heads import AppendSigmoid as AppendSigmoid
from surgeon.edits.heads import AppendSoftmax as AppendSoftmax
from surgeon.edits.heads import AppendTopK as AppendTopK
from surgeon.edits.hold import Hold as Hold
from surgeon.edits.insert import Insert as Insert
from surgeon.edits.notes import Metadata as Metadata
from surgeon.edits.notes import StripDoc as StripDoc
from surgeon.edits.order import OrderInputs as OrderInputs
from surgeon.edits.order import OrderOutputs as OrderOutputs
from surgeon.edits.outputs import AddOutput as AddOutput
from surgeon.edits.outputs import DropOutput as DropOutput
from surgeon.edits.pictures import PrependImage as PrependImage
from surgeon.edits.quantization import StripQdq as StripQdq
from surgeon.edits.rename import Rename as Rename
from surgeon.edits.retype import Retype as Retype
from surgeon.edits.stating import RaiseOpset as RaiseOpset
from surgeon.edits.stating import ShapesOf as ShapesOf
from surgeon.edits.stating import StateTensor as StateTensor
