"""Records written by hand are what protobuf itself would read."""

import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from surgeon.file.protobuf.node_encoder import doc_record, kind_record, metadata_record, node_record

NAMES = st.lists(st.text(max_size=200), max_size=4)


@given(
    st.text(max_size=9),
    st.text(max_size=9),
    st.text(max_size=300),
    NAMES,
    NAMES,
    st.text(max_size=300),
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=200)), max_size=3),
)
def test_protobuf_reads_what_was_written(op, domain, name, inputs, outputs, doc, metadata):
    """Every field comes back, whatever its length."""
    attributes = [helper.make_attribute("axis", -1), helper.make_attribute("values", list(range(300)))]
    kind = kind_record(op, domain, [item.SerializeToString() for item in attributes])
    origin = doc_record(doc) + b"".join(metadata_record(key, value) for key, value in metadata)
    node = onnx.NodeProto.FromString(node_record(name, inputs, outputs) + kind + origin)
    assert (node.op_type, node.domain, node.name, node.doc_string) == (op, domain, name, doc)
    assert (list(node.input), list(node.output)) == (inputs, outputs)
    assert list(node.attribute) == attributes
    assert [(item.key, item.value) for item in node.metadata_props] == metadata
