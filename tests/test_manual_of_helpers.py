"""`help(g.layer_normalization)`: the signature that it takes at this opset, and what the standard says of the op."""

import inspect
import pydoc

import onnx_graphsurgeon as gs
import pytest

from surgeon import Graph
from surgeon.ops.builder.graph import DOMAINS
from surgeon.ops.schemas.helper_names import helper_name
from surgeon.ops.schemas.op_schema import operators


@pytest.mark.parametrize(
    ("name", "opset", "signature"),
    [
        ("layer_normalization", 17, "(x, scale, b=None, *, axis=-1, epsilon=1e-05, stash_type=1)"),
        ("reduce_mean", 13, "(data, *, axes=None, keepdims=1)"),
        ("reduce_mean", 18, "(data, axes=None, *, keepdims=1, noop_with_empty_axes=0)"),
        ("concat", 18, "(*inputs, axis)"),
        ("ms_gelu", 18, "(x)"),
        ("mean_over", 18, "(x: onnx_graphsurgeon.ir.tensor.Tensor, axes: collections.abc.Sequence[int]) -> Any"),
    ],
)
def test_the_signature_is_that_of_the_opset(name, opset, signature):
    """Attributes of one version are inputs of another."""
    assert str(inspect.signature(getattr(Graph(opset=opset), name))) == signature


def test_help_has_the_standards_text():
    """Where a person looks first."""
    text = pydoc.plain(pydoc.render_doc(Graph(opset=17).layer_normalization))
    assert "layer_normalization(x, scale, b=None" in text
    assert "ai.onnx::LayerNormalization, as of version 17." in text
    assert "The overall computation can be split into two stages" in text


def test_ops_of_onnx_runtime_say_where_they_are_described():
    """The installed package has no text of them."""
    assert "ContribOperators.md#com.microsoft.Gelu" in Graph().ms_gelu.__doc__


def test_a_word_and_a_users_helper_have_their_own_text():
    """Without the graph among the parameters."""

    @gs.Graph.register()
    def twice_of_mine(self, x):
        """x + x."""
        return self.add(x, x)

    try:
        helper = Graph().twice_of_mine
        assert (helper.__doc__, str(inspect.signature(helper)), helper.__name__) == ("x + x.", "(x)", "twice_of_mine")
        assert Graph().rsqrt.__doc__.startswith("1/√x")
    finally:
        gs.Graph.GLOBAL_FUNC_MAP.pop("twice_of_mine", None)


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_operator_has_a_signature(domain):
    """Also those whose inputs and attributes are called alike."""
    for op in operators(domain):
        helper = getattr(Graph(), helper_name(domain, op))
        assert inspect.signature(helper) is not None
        assert repr(helper).startswith("<helper ")
