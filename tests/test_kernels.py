"""What execution providers have kernels for: the tables against the truth, and what rules do with them."""

import json
import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto

import surgeon
from surgeon.errors import UsageError
from surgeon.rules.rule import rule
from surgeon.runtime import provider_kernels, provider_support
from surgeon.runtime.provider_support import FLOATS, NEWEST, ProviderSupport, shipped_version
from surgeon.testing import parse
from surgeon.versions import RUNTIMES, version
from tests.command_line import gelus, one_sentence, result_in
from tests.command_line import run as command
from tests.kernel_probe import BODY, ELSEWHERE, KERNEL, Found, _place, corrected, samples
from tests.make_kernel_tables import CPU, DATA, content, cpu_rows, documented, parsed
from tests.models import graph, ops, opset, run
from tests.node_models import MICROSOFT, NODES, NUMBERS, runs, says

F, H, B, D = (NUMBERS[kind] for kind in ("float", "float16", "bfloat16", "double"))


def what_runs(ep, domain, op, version):
    """The floating-point types in which a provider runs an op, as letters."""
    kernels = ProviderSupport.of(ep)
    letters = {"f": F, "h": H, "b": B, "d": D}
    return "".join(letter for letter, dtype in letters.items() if kernels.runs(domain, op, version, {"T": dtype}))


ANY = NODES["", "Identity"]
of_the_table = pytest.mark.skipif(
    version(*RUNTIMES) != shipped_version(),
    reason=f"the table is of ONNX Runtime {shipped_version()}; python -m tests.make_kernel_tables makes a new one",
)


class TestTables:
    """The tables in surgeon/targets/data."""

    @of_the_table
    def test_that_of_the_cpu_holds_the_kernels_of_the_installed_onnx_runtime(self):
        import onnxruntime

        shipped = json.loads((DATA / "kernels_cpu.json").read_text(encoding="utf-8"))
        version = onnxruntime.__version__
        assert (
            provider_support.parse_table(content(cpu_rows(), version, is_exact=True)).kernels
            == provider_support.parse_table(shipped).kernels
        )

    @pytest.mark.parametrize("node", NODES.values(), ids=lambda node: f"{node.domain}::{node.op}")
    def test_says_what_onnx_runtime_does(self, node):
        """At every opset that it takes, and in every floating-point type that the op has."""
        kernels = ProviderSupport.of(CPU)
        opsets = [number for number in node.opsets if node.version(number) and runs(ANY, number, "float")]
        cells = [(number, kind) for number in opsets for kind in sorted(FLOATS)]
        assert cells
        reported = {cell: says(kernels, node, *cell) for cell in cells}
        assert reported == {cell: runs(node, *cell) for cell in cells}

    def test_a_body_counts_at_the_opsets_at_which_it_can_be_written_in(self):
        assert [what_runs("cpu", "", "Swish", version) for version in (24, 25)] == ["fhd", ""]
        assert [what_runs("cpu", "", "Mish", version) for version in (18, 22)] == ["fhd", "fh"]
        assert what_runs("cpu", "", "GroupNormalization", 21) == "fhd"

    def test_a_body_that_nobody_has_tried_does_not_count_in_bfloat16(self):
        """Attention's loads in float32 and float16, and a CPU has no kernel for what it does in bfloat16."""
        kernels = ProviderSupport.of("cpu")
        assert [kernels.runs("", "Attention", 23, {"T1": dtype, "T2": dtype}) for dtype in (F, H, B)] == [
            True,
            True,
            False,
        ]

    def test_a_coarse_body_runs_and_is_not_written(self):
        """The body of GroupNormalization loses digits; TensorRT has a kernel of its own."""
        asked = ("", "GroupNormalization", 21, {"T": F})
        for ep in ("cpu", "cuda"):
            kernels = ProviderSupport.of(ep)
            assert kernels.runs(*asked)
            assert not kernels.allows(*asked)
            assert kernels.missing_reason(*asked) == (
                f"ONNX Runtime's {kernels.title} provider has no kernel for ai.onnx::GroupNormalization in float at "
                "opset 21 (--ep tensorrt has one)"
            )
            assert kernels.next_supported_opset("", "GroupNormalization", 18, {"T": F}) is None
        assert ProviderSupport.of("tensorrt").allows(*asked)

    def test_float16_runs_through_casts_where_only_float_has_a_kernel(self):
        assert what_runs("cpu", MICROSOFT, "Gelu", 1) == "fh"
        assert what_runs("cpu", "", "LpNormalization", 22) == "fhd"

    def test_gpus_have_other_kernels(self):
        assert what_runs("cpu", MICROSOFT, "GroupNorm", 1) == ""
        assert what_runs("cuda", MICROSOFT, "GroupNorm", 1) == "fh"
        assert what_runs("cuda", MICROSOFT, "BiasGelu", 1) == "fhbd"
        assert what_runs("dml", MICROSOFT, "BiasGelu", 1) == "fh"
        assert what_runs("cuda", "", "LpNormalization", 22) == "fhb"
        assert [what_runs("cuda", "", "Elu", version) for version in (21, 22)] == ["fhd", ""]
        assert what_runs("cuda", "", "LeakyRelu", 16) == "fhd", "nor is its body written in"
        assert what_runs("cuda", "", "Celu", 12) == "", "the CPU provider has a kernel, so its body is not written in"
        assert what_runs("cuda", "", "Mish", 22) == "fhbd"
        assert what_runs("dml", "", "Mish", 22) == "fh", "DirectML has no Mul in bfloat16"
        assert what_runs("tensorrt", MICROSOFT, "Gelu", 1) == ""
        assert what_runs("tensorrt", "", "Gelu", 20) == "fhb"

    def test_what_is_not_known_does_not_count(self):
        kernels = ProviderSupport.of("cpu")
        assert kernels.runs("my.domain", "Thing", 1, {"T": B})
        assert kernels.runs("", "Gelu", 20, {})
        assert kernels.runs("", "SoftmaxCrossEntropyLoss", 13, {"T": F}), "a function whose body was not tried"
        assert not kernels.runs(MICROSOFT, "GroupNorm", 1, {})

    def test_constants_need_no_kernel(self):
        assert all(ProviderSupport.of(ep).runs("", "Constant", 17, {}) for ep in ("cpu", "cuda", "dml", "tensorrt"))

    def test_the_sentence_names_op_type_opset_and_who_has_one(self):
        kernels = ProviderSupport.of("cpu")
        assert kernels.missing_reason(MICROSOFT, "GroupNorm", 1, {"T": H}) == (
            "ONNX Runtime's CPU provider has no kernel for com.microsoft::GroupNorm in float16 "
            "(--ep cuda or dml has one)"
        )
        assert kernels.missing_reason("", "LpNormalization", 22, {"T": B}).startswith(
            "ONNX Runtime's CPU provider has no kernel for ai.onnx::LpNormalization in bfloat16 at opset 22"
        )
        assert kernels.missing_reason("", "LpNormalization", 22, {"T": F}) == ""

    def test_knows_at_which_opset_a_kernel_comes(self):
        kernels = ProviderSupport.of("cpu")
        assert kernels.next_supported_opset("", "Transpose", 12, {"T": B}) == 13
        assert kernels.next_supported_opset("", "LpNormalization", 1, {"T": B}) is None
        assert kernels.next_supported_opset(MICROSOFT, "GroupNorm", 1, {"T": F}) is None

    def test_an_unknown_provider(self):
        with pytest.raises(UsageError, match="Unknown execution provider 'gpu'. Choose one of cpu, cuda, dml, tens"):
            ProviderSupport.of("gpu")

    def test_names_as_onnx_runtime_writes_them(self):
        assert ProviderSupport.of("CUDAExecutionProvider").name == "cuda"

    @of_the_table
    def test_another_version_lists_its_own_kernels(self, monkeypatch):
        """And the same ones here, for it is the same version."""
        monkeypatch.setattr(provider_support, "version", lambda *_: "0.1")
        live = ProviderSupport(CPU, provider_support._live(CPU))
        ProviderSupport.of.__func__.cache_clear()
        try:
            assert ProviderSupport.of(CPU)._table.made_from == shipped_version()
            for node in (one for one in NODES.values() if one.version(22)):
                assert says(live, node, 22, "float") == says(
                    ProviderSupport(CPU, provider_support._shipped(CPU)), node, 22, "float"
                )
        finally:
            ProviderSupport.of.__func__.cache_clear()

    @of_the_table
    def test_the_cpu_table_is_read_without_onnx_runtime(self):
        code = "import sys; from surgeon.runtime.provider_support import ProviderSupport; ProviderSupport.of('cpu')"
        code += "; print('onnxruntime' in sys.modules)"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == "False"


class TestLists:
    """What the installed ONNX Runtime says itself."""

    def test_where_a_library_may_be_missing_a_child_is_asked(self, monkeypatch):
        here = provider_kernels.listed(CPU)
        if here is None:
            pytest.skip("the installed ONNX Runtime cannot list its kernels")
        monkeypatch.setattr(provider_kernels, "_BUILT_IN", frozenset())
        monkeypatch.setattr(provider_kernels, "tell", None)  # which nobody here calls now
        there = provider_kernels.listed(CPU)
        assert there is not None
        assert [tuple(row) for row in there.rows] == here.rows

    def test_a_list_that_ends_its_process_is_none(self, monkeypatch):
        """As that of onnxruntime-gpu does where TensorRT is not installed: the table is what is known then."""
        monkeypatch.setattr(provider_kernels, "_BUILT_IN", frozenset())
        monkeypatch.setattr(provider_kernels, "_TELL", "tests.child_tasks:segfault")
        assert provider_kernels.listed(CPU) is None
        ProviderSupport.of.__func__.cache_clear()
        try:
            assert ProviderSupport.of("cuda")._table.made_from.startswith("docs/OperatorKernels.md")
        finally:
            ProviderSupport.of.__func__.cache_clear()


class TestDocuments:
    """Reading the documents that tables are made from."""

    def test_operator_kernels(self):
        text = (
            "## Operators implemented by CPUExecutionProvider\n|**Operator Domain:** *ai.onnx*||||\n"
            "|Abs|*in* X:**T**|6+|**T** = tensor(float)|\n"
            "## Operators implemented by CUDAExecutionProvider\n|**Operator Domain:** *ai.onnx*||||\n"
            "|Relu|*in* X:**T**<br> *out* Y:**T**|14+|**T** = tensor(bfloat16), tensor(float)|\n"
            "|||13|**T** = tensor(bfloat16), tensor(float)|\n|||[6, 12]|**T** = tensor(float)|\n"
            "|**Operator Domain:** *com.microsoft*||||\n"
            "|GroupNorm|*in* X:**T**<br> *in* gamma:**M**|1+|**M** = tensor(float)<br/> **T** = tensor(float16)|\n"
        )
        found = documented(text, "rev")
        assert list(found) == ["cuda"]
        kernels = ProviderSupport("cuda", provider_support.parse_table(found["cuda"]))
        assert [row[:4] for row in found["cuda"]["kernels"]] == [
            ["", "Relu", 6, 12],
            ["", "Relu", 13, 0],
            [MICROSOFT, "GroupNorm", 1, 0],
        ]
        assert kernels.runs("", "Relu", 14, {"T": B})
        assert not kernels.runs("", "Relu", 12, {"T": B})
        assert kernels.runs(MICROSOFT, "GroupNorm", 1, {"T": H, "M": F})
        assert not kernels.runs(MICROSOFT, "GroupNorm", 1, {"T": H, "M": H})

    @pytest.mark.parametrize("ep", ["cuda", "dml"])
    def test_a_kernel_is_for_the_versions_that_have_its_type_variables(self, ep):
        """The documents say "10+" of a Resize whose T is T1 from opset 11 on."""
        assert ProviderSupport.of(ep).runs("", "Resize", 10, {"T": H})
        assert ProviderSupport.of(ep).runs("", "Resize", 18, {"T1": H})
        assert not ProviderSupport.of(ep).runs("", "Resize", 18, {"T1": B})

    def test_operators_of_the_parser(self):
        text = "| Operator | Supported | Types |\n| Gelu | Y | FP32, FP16 | |\n| Hardmax | N | | |\n| If | Y | | |\n"
        table = parsed(text, "rev")
        kernels = ProviderSupport("tensorrt", provider_support.parse_table(table))
        assert [row[1] for row in table["kernels"]] == ["Gelu", "If"]
        assert kernels.runs("", "Gelu", 20, {"T": H})
        assert not kernels.runs("", "Gelu", 20, {"T": B})
        assert not kernels.runs("", "Hardmax", 13, {"T": F})


class TestProbes:
    """Looking at what a provider runs, and correcting its table by it."""

    def test_where_nodes_are_placed(self):
        wanted = {("Relu", 14, "float"): KERNEL, ("Relu", 14, "bfloat16"): ELSEWHERE, ("Swish", 24, "float"): BODY}
        found = {}
        for sample in samples(24):
            key = (sample.version.name, sample.version.since_version, sample.kind)
            if key in wanted and key not in found:
                found[key] = _place((sample.model, "CPUExecutionProvider"))
        assert found == wanted

    def test_cases_are_looked_at_in_all_types_of_their_schema(self):
        kinds = {sample.kind for sample in samples(24) if sample.version.name == "DeformConv"}
        assert kinds == {"float", "float16", "bfloat16"}

    def test_a_table_is_corrected_where_something_was_looked_at(self):
        rows = [
            ("", "Elu", 6, NEWEST, {"T": frozenset({"double", "float", "float16"})}),
            ("", "Sin", 7, NEWEST, {"T": frozenset({"double", "float", "float16"})}),
            ("", "Exp", 6, NEWEST, {"T": frozenset({"float"})}),
        ]
        table = content(rows, "a document; and more", is_exact=False)
        found = [
            *(Found("", "Elu", 22, 22, kind, ("X", "T"), ELSEWHERE) for kind in ("float", "float16", "bfloat16")),
            *(Found("", "Sin", 22, 22, kind, ("T",), KERNEL) for kind in ("float", "float16", "bfloat16")),
            Found("", "DeformConv", 22, 22, "float", ("T",), KERNEL),
            Found("", "Swish", 24, 24, "float", ("T",), BODY),
            Found("", "Mish", 18, 18, "float16", ("T",), ELSEWHERE),
            *(Found("", "Mish", 18, 20, "float16", ("T",), BODY) for _ in range(2)),
            *(Found("", "Clip", 13, 16, "bfloat16", ("T",), how) for how in (BODY, ELSEWHERE)),
        ]
        made = corrected(table, found)
        kinds = made["type_sets"]
        assert [[*row[:4], {name: kinds[at] for name, at in row[4].items()}] for row in made["kernels"]] == [
            ["", "DeformConv", 22, 0, {"T": ["float"]}],
            ["", "Elu", 6, 21, {"T": ["double", "float", "float16"]}],
            ["", "Exp", 6, 0, {"T": ["float"]}],
            ["", "Sin", 7, 21, {"T": ["double", "float", "float16"]}],
            ["", "Sin", 22, 0, {"T": ["bfloat16", "double", "float", "float16"]}],
        ]
        assert [(row[:4], kinds[row[4]]) for row in made["bodies"]] == [
            (["", "Mish", 20, 21], ["float16"]),
            (["", "Swish", 24, 0], ["float"]),
        ]
        kernels = ProviderSupport("cuda", provider_support.parse_table(made))
        assert kernels.runs("", "Swish", 24, {"T": F})
        assert not kernels.runs("", "Swish", 24, {"T": B})
        assert made["made_from"] == "a document"


# ---- rules ----------------------------------------------------------------------------------------------------------


def twice(g, x):
    return g.neg(g.neg(x))


@rule(patterns=[twice], opset=1, target="ort")
def grouped(g, x):
    """Has no kernel on a CPU."""
    scale = g.ms_bias_add(x, [1.0] * 4, x)
    return g.identity(scale)


@rule(patterns=[twice])
def picky(g, x):
    """Has a form for GPUs, one for opset 18 and one for any."""
    return g.ms_bias_split_gelu(x, [1.0] * 4)


@picky.on("ort", opset=18)
def _(g, x):
    return g.mish(x)


@picky.on("onnx", opset=12)
def _(g, x):
    return g.relu(x)


NEGATED = "n = Neg(x) y = Neg(n)"


def head(kind="float"):
    return f"({kind}[1, 4, 4] x) => ({kind}[1, 4, 4] y)"


def fired(rules, version, kind="float", body=NEGATED, **settings):
    """The ops that are left, without any check."""
    model = graph(body, head(kind), header=opset(version, **{MICROSOFT: 1}))
    made, report = run(model, rules, check="none", **settings)
    return ops(made.graph), report


class TestRules:
    """What rules do where the provider has no kernel for what they write."""

    def test_it_stays_and_the_report_says_why(self):
        left, report = fired(grouped, 17)
        assert left == ["Neg", "Neg"]
        (miss,) = report.misses
        assert miss.kind == "kernel"
        assert miss.reason == (
            "ONNX Runtime's CPU provider has no kernel for com.microsoft::BiasAdd in float (--ep cuda or dml has one)"
        )

    def test_another_provider_has_one(self):
        left, report = fired(grouped, 17, ep="cuda")
        assert left == ["BiasAdd", "Identity"]
        assert report.to_dict()["ep"] == "cuda"
        assert "ep" not in fired(grouped, 17)[1].to_dict()

    def test_any_provider_asks_none(self):
        assert fired(grouped, 17, ep="any")[0] == ["BiasAdd", "Identity"]

    def test_without_a_kernel_before_there_is_none_to_lose(self):
        """Neg has no kernel in bfloat16, and Identity has one."""

        @rule(patterns=[twice, lambda g, x: g.identity(g.identity(x))])
        def smooth(g, x):
            return g.selu(x)

        assert fired(smooth, 22, "bfloat16")[0] == ["Selu"]
        left, report = fired(smooth, 22, "bfloat16", body="n = Identity(x) y = Identity(n)")
        assert left == ["Identity", "Identity"]
        assert "no kernel for ai.onnx::Selu in bfloat16 at opset 22 (--ep" in report.misses[0].reason

    def test_where_the_target_has_no_other_provider_doubles_are_advised_to_become_floats(self):
        """Not to choose ONNX Runtime's own for a model that TensorRT is to run."""
        model = parse(
            '<ir_version: 8, opset_import: ["" : 17, "mylib" : 1]> g (double[n, 4] x) => (double[n, 4] y) '
            "{ y = mylib.rectify(x) }"
        )

        @rule(patterns=[lambda g, x: g.op("mylib::rectify", x)], target="onnx")
        def rectified(g, x):
            return g.relu(x)

        for settings in ({"target": "tensorrt"}, {"target": "onnx", "ep": "tensorrt"}):
            _, report = run(model, rectified, check="none", **settings)
            assert "no kernel for ai.onnx::Relu in double" in report.misses[0].reason
            is_for_tensorrt = settings["target"] == "tensorrt"
            assert ("(--ep " in report.misses[0].reason) != is_for_tensorrt
            assert ("surgeon convert IN OUT --from float64" in report.misses[0].reason) == is_for_tensorrt

    def test_a_coarse_body_is_a_kernel_to_lose(self):
        """What it runs is not given up for what no kernel runs, and it is not written."""
        constants = "<float[4] s = {1, 1, 1, 1}>"
        node = "y = GroupNormalization<num_groups = 2>(x, s, s)"
        model = parse(
            f'<ir_version: 10, opset_import: ["" : 21, "{MICROSOFT}" : 1]> agraph {head()} {constants} {{ {node} }}'
        )

        @rule(patterns=[lambda g, x, s, b: g.group_normalization(x, s, b, num_groups=2)])
        def for_gpus(g, x):
            return g.ms_bias_split_gelu(x, [1.0] * 4)

        made, report = run(model, for_gpus, check="none")
        assert ops(made.graph) == ["GroupNormalization"]
        assert "no kernel for com.microsoft::BiasSplitGelu" in report.misses[0].reason

        @rule(patterns=[twice], target="onnx", opset=21)
        def coarse(g, x):
            return g.group_normalization(x, [1.0] * 4, [0.0] * 4, num_groups=2)

        left, report = fired(coarse, 21)
        assert left == ["Neg", "Neg"]
        assert "no kernel for ai.onnx::GroupNormalization in float" in report.misses[0].reason
        assert fired(coarse, 21, target="onnx")[0] == ["GroupNormalization"]

    def test_a_target_that_is_not_onnx_runtime_asks_only_where_it_is_named(self):
        @rule(patterns=[twice], target="onnx", opset=12)
        def exotic(g, x):
            return g.celu(x)

        assert fired(exotic, 17, target="onnx")[0] == ["Celu"]
        assert fired(exotic, 17, target="onnx", ep="cuda")[0] == ["Neg", "Neg"]
        assert fired(exotic, 17, target="onnx", ep="cpu")[0] == ["Celu"]

    @pytest.mark.parametrize(
        ("version", "ep", "wanted"), [(17, None, "Relu"), (18, None, "Mish"), (17, "cuda", "BiasSplitGelu")]
    )
    def test_the_best_form_that_has_kernels_is_written(self, version, ep, wanted):
        assert fired(picky, version, ep=ep)[0] == [wanted]

    def test_the_best_form_is_reported_of_where_none_has_kernels(self):
        left, report = fired(picky, 11)
        assert left == ["Neg", "Neg"]
        assert "com.microsoft::BiasSplitGelu" in report.misses[0].reason

    def test_the_dtype_of_what_lies_between_is_followed(self):
        """A cast inside the replacement makes the float that BiasAdd has a kernel for on a GPU."""

        @rule(patterns=[twice])
        def cast(g, x):
            return g.cast_like(g.ms_bias_add(g.cast(x, to="double"), [1.0] * 4, g.cast(x, to="double")), x)

        assert fired(cast, 17, ep="cuda")[0] == ["Neg", "Neg"]

    def test_raising_the_opset_is_reported_where_it_helps(self):
        """The body of HardSwish can be written in for a double at opset 18."""

        @rule(patterns=[twice], opset=14)
        def hard(g, x):
            return g.hard_swish(x)

        left, report = fired(hard, 17, "double")
        assert left == ["Neg", "Neg"]
        assert report.misses[0].reason.endswith("; or raise the opset: surgeon upgrade IN OUT --opset 18")
        assert fired(hard, 18, "double")[0] == ["HardSwish"]

    def test_explain_says_it_too(self):
        model = graph(NEGATED, head(), header=opset(17))
        (miss,) = surgeon.explain(model, grouped)
        assert (miss.kind, miss.at or miss.node) != ("", "")
        assert "(--ep cuda or dml has one)" in miss.reason
        assert surgeon.explain(model, grouped, ep="cuda") == []

    def test_find_says_where_it_would_fire(self):
        model = graph(NEGATED, head(), header=opset(17))
        assert list(surgeon.find(model, grouped)) == []
        assert len(list(surgeon.find(model, grouped, ep="cuda"))) == 1

    def test_unknown_dtypes_never_stand_in_the_way(self):
        model = graph("k = Mystery(x) n = Neg(k) y = Neg(n)", head(), header=opset(17, **{"my.domain": 1}))
        model.graph.node[0].domain = "my.domain"
        made, _ = run(model, picky, check="none", ep="cuda")
        assert ops(made.graph)[-1] == "BiasSplitGelu"


class TestCommandLine:
    """--ep."""

    def test_rewrite(self, tmp_path):
        source, output = gelus(tmp_path, 1), tmp_path / "out.onnx"
        text = command("rewrite", source, output, "--rules", "gelu", "--ep", "tensorrt").stdout
        assert (
            "TensorRT provider has no kernel for com.microsoft::Gelu in float (--ep cpu or cuda or dml has one)" in text
        )
        report = tmp_path / "report.json"
        assert command("rewrite", source, output, "-r", "gelu", "--ep", "cuda", "--report", report).exit_code == 0
        assert "Gelu" in ops(onnx.load(output).graph)
        assert result_in(report.read_text())["ep"] == "cuda"

    def test_explain(self, tmp_path):
        source = gelus(tmp_path, 1)
        output = command("explain", source, "--rules", "gelu", "--ep", "tensorrt").stdout
        assert "has no kernel for com.microsoft::Gelu" in output
        assert "fires    gelu 1" in command("explain", source, "--rules", "gelu", "--ep", "cuda").stdout

    @pytest.mark.parametrize("words", [["rewrite", "in.onnx", "out.onnx"], ["explain", "in.onnx"]])
    def test_an_unknown_provider(self, tmp_path, words):
        gelus(tmp_path, 1)
        paths = [str(tmp_path / word) if word.endswith(".onnx") else word for word in words]
        line = one_sentence(command(*paths, "--rules", "gelu", "--ep", "gpu"), 2)
        assert "Unknown execution provider 'gpu'. Choose one of cpu, cuda, dml, tensorrt, or any." in line


def test_dtypes_of_the_tables_are_those_of_onnx():
    """A type that is misspelt would never fit."""
    known = {name.lower() for name in dict(TensorProto.DataType.items())}
    for path in DATA.glob("kernels_*.json"):
        table = json.loads(path.read_text(encoding="utf-8"))
        assert {kind for kinds in table["type_sets"] for kind in kinds} <= known, path.name
        assert table["made_from"]
