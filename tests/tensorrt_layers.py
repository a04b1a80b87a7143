"""What a child is asked for: the kinds of layers that TensorRT's parser makes of a model."""

from surgeon.file.model import Model
from surgeon.runtime.tensorrt.parser_tasks import Parsed


def layers(source, note):
    """The kinds, in order."""
    with Model.open(source.model) as model:
        parsed = Parsed(source, model, note)
        assert not parsed.diagnostics()["faults"]
        network = parsed._network
        return {"kinds": [network.get_layer(place).type.name for place in range(network.num_layers)]}, []
