"""Edits of whole models, each a value: `surgeon.edit(model, [surgeon.edits.Rename("images", "pixels")])`.

Another package adds an edit as a subclass of `Edit` and an entry point of the group `surgeon.edits`.
"""

from surgeon.edits.append import AppendArgMax as AppendArgMax
from surgeon.edits.append import AppendSigmoid as AppendSigmoid
from surgeon.edits.append import AppendSoftmax as AppendSoftmax
from surgeon.edits.append import AppendTopK as AppendTopK
from surgeon.edits.bound_sizes import BoundSizes as BoundSizes
from surgeon.edits.decoders.last_logits import LastLogits as LastLogits
from surgeon.edits.decoders.rotary_in_attention import RotaryInAttention as RotaryInAttention
from surgeon.edits.decoders.sequence_sizes import SequenceSizes as SequenceSizes
from surgeon.edits.detection.nms import AppendEfficientNms as AppendEfficientNms
from surgeon.edits.detection.nms import AppendNms as AppendNms
from surgeon.edits.detection.nms_free import AppendBestBoxes as AppendBestBoxes
from surgeon.edits.detection.nms_free import AppendBoxes as AppendBoxes
from surgeon.edits.detection.postprocessing_edits import detector_tail as detector_tail
from surgeon.edits.dynamic_dims.dim_edits import Dim as Dim
from surgeon.edits.dynamic_dims.dim_edits import JoinDim as JoinDim
from surgeon.edits.dynamic_dims.dim_edits import RenameDim as RenameDim
from surgeon.edits.dynamic_dims.make_dynamic import Free as Free
from surgeon.edits.extract import Extract as Extract
from surgeon.edits.insert import Insert as Insert
from surgeon.edits.metadata import Metadata as Metadata
from surgeon.edits.metadata import StripDoc as StripDoc
from surgeon.edits.model_io.outputs import AddOutput as AddOutput
from surgeon.edits.model_io.outputs import DropOutput as DropOutput
from surgeon.edits.model_io.reorder import OrderInputs as OrderInputs
from surgeon.edits.model_io.reorder import OrderOutputs as OrderOutputs
from surgeon.edits.model_io.retype import Retype as Retype
from surgeon.edits.model_io.set_input import Hold as Hold
from surgeon.edits.model_io.sort_nodes import SortNodes as SortNodes
from surgeon.edits.model_io.weight_inputs import DropWeightInputs as DropWeightInputs
from surgeon.edits.prepend import PrependImage as PrependImage
from surgeon.edits.raise_opset import RaiseOpset as RaiseOpset
from surgeon.edits.rename import Rename as Rename
from surgeon.edits.strip_qdq import StripQdq as StripQdq
from surgeon.edits.value_info import ShapesOf as ShapesOf
from surgeon.edits.value_info import StateTensor as StateTensor
from surgeon.pipeline.editing.claim import ModelClaim as ModelClaim
from surgeon.pipeline.editing.draft import ModelDraft as ModelDraft
from surgeon.pipeline.editing.edit import Edit as Edit
