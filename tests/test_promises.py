"""What users are promised of files and graphs, tried from outside: the command line and the public names."""

import hashlib
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.testing import parse
from tests.command_line import files_in, gelus, one_sentence, ops, process, run

ERF = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
CONSTANTS = "<float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}, float unused = {3.0}>"
SQRT2 = np.float32(2**0.5)


def exact(head: str = "(float[n, 4] x) => (float[n, 4] y)", body: str = ERF, **settings: int) -> onnx.ModelProto:
    """One exact GELU, and an initializer that nothing uses."""
    return parse(f"{head} {CONSTANTS} {{ {body} }}", **settings)


def outside(array: np.ndarray, name: str, folder: Path, **entries: str) -> TensorProto:
    """A tensor whose data lie in a file called like it."""
    (folder / f"{name}.bin").write_bytes(array.tobytes())
    tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    checksum = hashlib.sha1(array.tobytes()).hexdigest()
    for key, value in {"location": f"{name}.bin", **entries, "checksum": checksum}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.fixture
def scattered(tmp_path: Path) -> Path:
    """A GELU whose scalars lie in files, one of them of a Constant node; a weight and a sparse one lie in files too."""
    folder = tmp_path / "source"
    folder.mkdir()
    body = exact().graph
    half = helper.make_node("Constant", [], ["half"], value=outside(np.float32(0.5), "half", folder))
    sparse = helper.make_sparse_tensor(
        outside(np.ones(3, np.float32), "values", folder), numpy_helper.from_array(np.arange(3), "places"), [10]
    )
    initializers = [
        outside(SQRT2, "sqrt2", folder, offset="0", length="4"),
        numpy_helper.from_array(np.float32(1), "one"),
        outside(np.arange(3000, dtype=np.int64), "weight", folder),
    ]
    graph = helper.make_graph(
        [half, *body.node], "g", body.input, body.output, initializers, sparse_initializer=[sparse]
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_scalars_in_data_files_are_constants_and_data_files_come_along(scattered: Path, tmp_path: Path) -> None:
    """The copy loads by itself; entries keep offset, length and checksum."""
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.onnx"
    assert run("rewrite", scattered, out, "--rules", "gelu", "--require-proof").exit_code == 0
    assert ops(out) == ["com.microsoft::Gelu"]
    onnx.checker.check_model(str(out))
    before, after = (onnx.load(path, load_external_data=False).graph for path in (scattered, out))
    assert after.initializer[0] == before.initializer[2]
    assert after.sparse_initializer == before.sparse_initializer
    assert (out.parent / "weight.bin").read_bytes() == (scattered.parent / "weight.bin").read_bytes()
    assert all((out.parent / name).stat().st_nlink == 1 for name in files_in(out.parent))


def test_inline_leaves_nothing_outside(scattered: Path, tmp_path: Path) -> None:
    """All tensors with data in files, sparse ones too, lie in the model, with the same values."""
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.onnx"
    assert run("rewrite", scattered, out, "--rules", "gelu", "--external-data", "inline").exit_code == 0
    assert files_in(out.parent) == {"m.onnx"}
    graph = onnx.load(out, load_external_data=False).graph
    assert numpy_helper.to_array(graph.initializer[0]).tolist() == list(range(3000))
    assert numpy_helper.to_array(graph.sparse_initializer[0].values).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("damage", "words"), [("empty", "truncated"), ("short", "truncated"), ("gone", "cannot be opened")]
)
def test_a_data_file_that_lacks_bytes_is_refused_and_nothing_is_written(
    damage: str, words: str, scattered: Path, tmp_path: Path
) -> None:
    """Also when nothing asks for its values, and in the same folder, where files are shared."""
    weight = scattered.parent / "weight.bin"
    weight.write_bytes(b"" if damage == "empty" else weight.read_bytes()[:-1])
    if damage == "gone":
        weight.unlink()
    before = files_in(scattered.parent)
    for out in (scattered.parent / "out.onnx", tmp_path / "out.onnx"):
        assert words in one_sentence(run("rewrite", scattered, out, "--rules", "gelu", "--check", "none"), 2)
    assert files_in(scattered.parent) == before
    assert files_in(tmp_path) == {"source"}


KILLED = """
import os, signal, sys, surgeon
def die(what, count):
    if what == "check":  # the new file is written and not yet renamed
        os.kill(os.getpid(), signal.SIGKILL)
surgeon.rewrite(sys.argv[1], "gelu", output=sys.argv[1], progress=die)
"""


def test_a_killed_rewrite_in_place_leaves_the_model_whole(tmp_path: Path) -> None:
    """One temporary file with a name that tells whose it is, gone after the next run."""
    path = gelus(tmp_path)
    before = path.read_bytes()
    assert process("-c", KILLED, path).returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    (litter,) = files_in(tmp_path) - {"in.onnx"}
    assert litter.startswith(".in.onnx.surgeon-")
    assert run("rewrite", path, path, "--rules", "gelu").exit_code == 0
    assert files_in(tmp_path) == {"in.onnx"}
    assert ops(path) == ["com.microsoft::Gelu"] * 2


FOREIGN = """
import os, sys
import onnx, onnx_graphsurgeon, onnxruntime, surgeon
sys.platform, source, out = sys.argv[1:4]
del os.copy_file_range
if sys.platform == "win32":
    sys.modules["fcntl"] = None
    del os.pread, os.fchmod, os.fchown
for target in (out, out, source):  # anew, over an older one, over the source itself
    _, report = surgeon.rewrite(source, "gelu", output=target, require_proof=True)
    print(len(report.sites))
"""


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_systems_without_linux_calls(system: str, scattered: Path, tmp_path: Path) -> None:
    """The standard library copies data files and model; nothing is left behind."""
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.onnx"
    done = process("-c", FOREIGN, system, scattered, out)
    assert done.stdout.split() == ["1", "1", "1"], done.stderr
    assert ops(out) == ops(scattered) == ["com.microsoft::Gelu"]
    assert numpy_helper.to_array(onnx.load(out).graph.initializer[0]).tolist() == list(range(3000))
    assert not any(name.endswith(".tmp") for name in files_in(out.parent) | files_in(scattered.parent))


@pytest.mark.parametrize("target", ["ort", "decomposed"])
def test_bytes_and_order_do_not_depend_on_the_run(target: str, tmp_path: Path) -> None:
    """Another seed of Python's hashes, the same file and the same sites in the same order."""
    source = gelus(tmp_path, 6)
    if target == "decomposed":
        run("rewrite", source, source, "--rules", "gelu")
    seen = set()
    for seed in ("0", "1", "2"):
        out = tmp_path / "out.onnx"
        out.unlink(missing_ok=True)
        arguments = ("rewrite", source, out, "--rules", "gelu", "--target", target, "--check", "none", "--diff")
        done = process("-m", "surgeon", *arguments, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        seen.add((out.read_bytes(), done.stdout.partition("\nwrote ")[0]))
    assert len(seen) == 1


def test_path_and_proto_give_the_same_bytes_and_keep_what_nobody_knows(tmp_path: Path) -> None:
    """A field of a later ONNX stays where it is, in memory and on disk."""
    unknown = b"\xfa\x3f\x03abc"
    data = gelus(tmp_path).read_bytes() + unknown
    (tmp_path / "in.onnx").write_bytes(data)
    surgeon.rewrite(tmp_path / "in.onnx", "gelu", output=tmp_path / "out.onnx")
    proto, _ = surgeon.rewrite(onnx.ModelProto.FromString(data), "gelu")
    assert (tmp_path / "out.onnx").read_bytes() == proto.SerializeToString()
    assert (tmp_path / "out.onnx").read_bytes().endswith(unknown)


@pytest.mark.parametrize("ir_version", [3, 8])
def test_orphaned_initializers_go_and_unused_ones_stay(ir_version: int) -> None:
    """Below IR 4 their inputs go with them."""
    model = exact(ir_version=ir_version)
    names = [item.name for item in model.graph.initializer] if ir_version < 4 else []
    model.graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in names)
    after, _ = surgeon.rewrite(model, "gelu", require_proof=True)
    assert [item.name for item in after.graph.initializer] == ["unused"]
    assert [item.name for item in after.graph.input] == (["x", "unused"] if names else ["x"])


def test_tensors_that_quantization_names_stay() -> None:
    """The annotation of the result is no hindrance, and the scale that it names is not swept away."""
    model = exact()
    annotation = model.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="one")
    after, report = surgeon.rewrite(model, "gelu")
    assert report.count("gelu") == 1
    assert [item.name for item in after.graph.initializer] == ["one", "unused"]
    assert after.graph.quantization_annotation == model.graph.quantization_annotation


def test_the_default_domain_may_be_spelled_out() -> None:
    """By nodes and import; what stays is spelled as before."""
    model = exact(body=f"{ERF.replace('y =', 'g =')} y = Neg(g)")
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node:
        node.domain = "ai.onnx"
    after, _ = surgeon.rewrite(model, "gelu", require_proof=True)
    assert [(node.domain, node.op_type) for node in after.graph.node] == [("com.microsoft", "Gelu"), ("ai.onnx", "Neg")]
    assert [item.domain for item in after.opset_import] == ["ai.onnx", "com.microsoft"]


def test_a_match_never_spans_two_scopes() -> None:
    """Half of a GELU outside of a body and half inside is left alone, and said so."""
    branch = "{ e = Erf(d) a = Add(e, one) m = Mul(x, a) o = Mul(m, half) }"
    model = exact(
        "(float[n, 4] x, bool c) => (float[n, 4] y)",
        f"d = Div(x, sqrt2) y = If(c) <then_branch = t () => (float[n, 4] o) {branch}, "
        f"else_branch = f () => (float[n, 4] o) {branch}>",
    )
    after, report = surgeon.rewrite(model, "gelu")
    assert after.SerializeToString() == model.SerializeToString()
    assert any(miss.rule == "gelu" and "'d'" in miss.reason for miss in report.misses)
