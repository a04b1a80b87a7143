"""What users are promised, tried from outside: the command line and the public names, on whole files."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.testing import parse
from tests.command_line import EXACT, gelus, one_sentence, ops, run, save

ROOT = Path(__file__).resolve().parent.parent
ERF = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
CONSTANTS = "<float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}, float unused = {3.0}>"
SQRT2 = np.float32(2**0.5)


def exact(head: str = "(float[n, 4] x) => (float[n, 4] y)", body: str = ERF, **settings: int) -> onnx.ModelProto:
    """One exact GELU, and an initializer that nothing uses."""
    return parse(f"{head} {CONSTANTS} {{ {body} }}", **settings)


def files_in(folder: Path) -> set[str]:
    """All names in a folder."""
    return set(os.listdir(folder))


def process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with the repository on its path."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [variables.pop("PYTHONPATH", "")])])
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths, **variables}
    )


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
    ("damage", "words"), [("empty", "too short"), ("short", "too short"), ("gone", "cannot be opened")]
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
    del os.pread, os.fchmod
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
        arguments = ("rewrite", source, out, "--rules", "gelu", "--target", target, "--check", "none", "--diff")
        done = process("-m", "surgeon", *arguments, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        seen.add((out.read_bytes(), done.stdout.partition("\nrule ")[0]))
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


STANDARD = ["Gelu", "Gelu", "Swish"]
CONTRIB = ["com.microsoft::Gelu", "com.microsoft::FastGelu", "com.microsoft::QuickGelu"]
HOPS = [
    ("onnx", STANDARD),
    ("ort", STANDARD),
    ("contrib", CONTRIB),
    ("onnx", STANDARD),
    ("decomposed", None),
    ("contrib", CONTRIB),
    ("decomposed", None),
    ("ort", CONTRIB),
]


def test_all_three_gelus_travel_between_all_targets(tmp_path: Path) -> None:
    """From any form to any other and back, on one file, each hop checked where ONNX Runtime has the kernels."""
    path = save(
        tmp_path,
        'g = Gelu(x) t = Gelu<approximate = "tanh">(g) y = com.microsoft.QuickGelu<alpha = 1.702>(t)',
        opset=24,
        ir_version=11,
        constants="",
        imports=', "com.microsoft" : 1',
    )
    source = path.read_bytes()
    for target, wanted in HOPS:
        done = run("rewrite", path, path, "--rules", "gelu", "--target", target)
        assert done.exit_code == 0, done.output
        found = ops(path)
        assert found == wanted if wanted else not {"Gelu", "Swish"} & {op.rpartition(":")[2] for op in found}
    first, last = onnx.ModelProto.FromString(source).graph, onnx.load(path).graph
    assert (first.input, first.output) == (last.input, last.output)
    assert not last.initializer


UNPROVABLE = {
    "a placeholder": ("z = my.Thing(y)", "does not load the original"),
    "all NaN": ("p = Abs(y) n = Neg(p) q = Sub(n, one) z = Sqrt(q)", "all NaN"),
    "random": ("r = RandomNormalLike(y) z = Add(r, y)", "Two runs of the original differ"),
}


@pytest.mark.parametrize("title", UNPROVABLE)
def test_unproved_is_written_and_loud_unless_proof_is_required(title: str, tmp_path: Path) -> None:
    """Each cause has its reason, on the console and in the report."""
    tail, words = UNPROVABLE[title]
    path = save(tmp_path, f"{EXACT.format(i='g', x='x', y='y')} {tail}", outputs="float[n, 4] z", imports=', "my" : 1')
    report = tmp_path / "report.json"
    out = tmp_path / "out.onnx"
    done = run("rewrite", path, out, "--rules", "gelu", "--report", report)
    assert done.exit_code == 0
    assert out.exists()
    assert "UNPROVED" in done.stdout
    assert words in done.stdout
    told = json.loads(report.read_text())
    assert (told["outcome"], told["written"], told["sites"][0]["outcome"]) == ("unproved", True, "unproved")
    assert words in told["check"]["reason"]
    out.unlink()
    assert run("rewrite", path, out, "--rules", "gelu", "--require-proof").exit_code == 1
    assert not out.exists()


USERS_RULE = '''
import onnx_graphsurgeon as gs
from surgeon import Graph, Tensor, rule

@gs.Graph.register()
def mul(self, a, b):
    return self.layer(op="Sub", inputs=[a, b], outputs=["out"])

def pattern(g: Graph, x: Tensor) -> Tensor:
    """What `mul` means here: a difference."""
    return g.mul(g.relu(x), x)[0]

@rule(patterns=[pattern])
def difference(g: Graph, x: Tensor) -> Tensor:
    """Max(-x, 0), without the sum."""
    return g.relu(g.neg(x))
'''


def test_a_user_s_helper_and_the_builtin_rules_in_one_run(tmp_path: Path) -> None:
    """`mul` means Sub in the user's file, and still Mul in the rule that ships, as pattern and as replacement."""
    (tmp_path / "mine.py").write_text(USERS_RULE)
    body = f"{EXACT.format(i='g', x='x', y='h')} r = Relu(h) y = Sub(r, h)"
    path, out = save(tmp_path, body), tmp_path / "out.onnx"
    for target in ("ort", "decomposed", "ort"):
        done = process(
            "-m",
            "surgeon",
            "rewrite",
            path,
            out,
            "--rules",
            f"{tmp_path / 'mine.py'},gelu",
            "--target",
            target,
            "--require-proof",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        path = out
    assert ops(out) == ["com.microsoft::Gelu", "Neg", "Relu"]


def test_an_installed_pack_is_listed_explained_and_run(tmp_path: Path) -> None:
    """By its metadata alone, as pip writes them."""
    (tmp_path / "my_pack").mkdir()
    (tmp_path / "my_pack" / "__init__.py").write_text("")
    (tmp_path / "my_pack" / "minus.py").write_text(USERS_RULE.replace("mul", "my_minus"))
    (tmp_path / "my_pack-1.dist-info").mkdir()
    (tmp_path / "my_pack-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pack\nVersion: 1\n")
    (tmp_path / "my_pack-1.dist-info" / "entry_points.txt").write_text("[surgeon.rules]\nmy-pack = my_pack\n")
    path = save(tmp_path, "r = Relu(x) y = Sub(r, x)")
    listed = process("-m", "surgeon", "rules", PYTHONPATH=str(tmp_path))
    assert "my-pack: my_pack.minus" in listed.stdout
    assert "Max(-x, 0)" in process("-m", "surgeon", "rules", "difference", PYTHONPATH=str(tmp_path)).stdout
    for name in ("difference", "minus", "minus:difference", "my_pack.minus:difference"):
        out = tmp_path / "out.onnx"
        done = process("-m", "surgeon", "rewrite", path, out, "--rules", name, PYTHONPATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert ops(out) == ["Neg", "Relu"]


def test_a_failed_check_keeps_the_old_output_and_the_report_says_so(tmp_path: Path) -> None:
    """The exact GELU taken for the tanh form differs by 5e-4 at most, and that is found."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))

    @rule(patterns=[pattern])
    def nearly(g: Graph, x: Tensor) -> Tensor:
        return g.ms_fast_gelu(x)

    path, out = gelus(tmp_path, 1), tmp_path / "out.onnx"
    out.write_bytes(b"old")
    with pytest.raises(surgeon.CheckFailed) as failed:
        surgeon.rewrite(path, nearly, output=out)
    assert out.read_bytes() == b"old"
    assert files_in(tmp_path) == {"in.onnx", "out.onnx"}
    assert failed.value.report.outcome == "failed"
    assert [site.outcome for site in failed.value.report.sites] == ["failed"]


def test_a_sum_of_thousands_is_no_explosion(tmp_path: Path) -> None:
    """A chain of 3,000 Adds, searched by a rule that starts from a sum."""

    def pattern(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.mul(g.add(a, b), 0.5)

    @rule(patterns=[pattern])
    def mean(g: Graph, a: Tensor, b: Tensor) -> Tensor:
        return g.mean(a, b)

    chain = " ".join(f"c{place} = Add(c{place - 1}, x)" for place in range(1, 3000))
    model = parse(
        f"(float[n, 4] x) => (float[n, 4] y) <float half = {{0.5}}> {{ c0 = Neg(x) {chain} y = Mul(c2999, half) }}"
    )
    start = time.perf_counter()
    _, report = surgeon.rewrite(model, mean, check="none")
    assert report.count("mean") == 1
    assert time.perf_counter() - start < 5
