"""Edits of whole models, each a value: `surgeon.edit(model, [surgeon.edits.Rename("images", "pixels")])`.

An edit of somebody else is a subclass of `Edit`, named by an entry point of the group `surgeon.edits`.
"""

from surgeon.editing.edit import Edit as Edit
from surgeon.edits.extract import Extract as Extract
from surgeon.edits.notes import Metadata as Metadata
from surgeon.edits.notes import StripDoc as StripDoc
from surgeon.edits.order import OrderInputs as OrderInputs
from surgeon.edits.order import OrderOutputs as OrderOutputs
from surgeon.edits.outputs import AddOutput as AddOutput
from surgeon.edits.outputs import DropOutput as DropOutput
from surgeon.edits.rename import Rename as Rename
from surgeon.edits.retype import Retype as Retype
