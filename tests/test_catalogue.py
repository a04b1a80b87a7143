"""Names of rules: packs found through entry points, files, modules, and what is said of a name that leads nowhere."""

import importlib
import importlib.metadata
import sys

import pytest
from surgeon.patterns.activations.gelu import gelu, gelu_tanh

import surgeon
import surgeon.patterns
from surgeon import Graph, RuleError, UsageError, require, rewrite
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.entry_points import points_of
from surgeon.errors import Unavailable
from surgeon.ops.builder.graph import _packs
from surgeon.rules.catalogue import groups, is_known, packs, resolve, unique_rules
from surgeon.rules.rule import RulePlan
from surgeon.testing import parse
from tests.models import graph, make, ops
from tests.versions import KERNELS_OF_ALL_RULES

RULES = """
from surgeon import rule

@rule(patterns=[lambda g, x: g.relu(g.tanh(x))])
def relu_tanh(g, x):
    "Fuse Relu(Tanh)."
    return g.op("my::fused", x)

@rule(patterns=[lambda g, x: g.sin(g.cos(x))])
def sin_cos(g, x):
    return g.op("my::sincos", x)
"""


def names(*asked):
    return {name: [rule.name for rule in rules] for name, rules in resolve(asked).items()}


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """Install a fake distribution with a rule pack; returns a function of (pack, modules)."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, modules, value=None):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[surgeon.rules]\n{name} = {value or name}\n")
        importlib.invalidate_caches()

    yield install
    for module in [item for item in sys.modules if item.partition(".")[0] in ("otherpack", "thirdpack")]:
        del sys.modules[module]


def test_names_of_files_and_rules():
    assert names("gelu") == {"gelu": ["gelu", "gelu_tanh", "quick_gelu"]}
    assert names("quick_gelu") == {"quick_gelu": ["quick_gelu"]}
    assert names("gelu:gelu_tanh") == {"gelu:gelu_tanh": ["gelu_tanh"]}
    assert names("gelu, bias_gelu") == {"gelu": ["gelu", "gelu_tanh", "quick_gelu"], "bias_gelu": ["bias_gelu"]}
    home = "surgeon.patterns.activations.gelu"
    assert names(home) == {home: ["gelu", "gelu_tanh", "quick_gelu"]}
    assert names(f"{home}:gelu") == {f"{home}:gelu": ["gelu"]}


def test_packs_are_looked_for_once_for_a_group_of_many_rules(monkeypatch):
    asked = []
    found = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **only: asked.append(only) or found(**only))
    monkeypatch.syspath_prepend("a folder that is not there")
    points_of.cache_clear()
    assert len(unique_rules(resolve("ort"))) > 50
    assert len(asked) == 1


def test_rule_objects_and_names_mix_and_count_once():
    assert [rule.name for rule in unique_rules(resolve([gelu, "gelu", gelu_tanh]))] == [
        "gelu",
        "gelu_tanh",
        "quick_gelu",
    ]


@pytest.mark.parametrize("wrong", [3, [None], ["gelu", 3], [["gelu"]], b"gelu", rewrite])
def test_what_is_neither_a_name_nor_a_rule_is_reported(wrong):
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    for asked in (rewrite, lambda *given: list(surgeon.find(*given)), surgeon.explain):
        with pytest.raises(UsageError, match=r"^Expected a rule, .* got an object of type \w+\."):
            asked(model, wrong)


def test_no_rules_at_all_are_reported_where_there_is_no_default():
    """`rewrite` and `explain` run the group for the target instead."""
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    with pytest.raises(UsageError, match="of type NoneType"):
        list(surgeon.find(model, None))


@pytest.mark.parametrize("wrong", ["graph", "bytes", None, 3])
def test_what_is_no_model_is_reported(wrong):
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    source = {"graph": model.graph, "bytes": model.SerializeToString()}.get(wrong, wrong)
    find = lambda found: list(surgeon.find(found, "gelu"))  # noqa: E731 - one of several
    for asked in (lambda found: rewrite(found, "gelu"), find, surgeon.inspect, surgeon.check, surgeon.draw):
        with pytest.raises(UsageError, match="^Invalid model of type .*. Give a path, a ModelProto, a gs.Graph, "):
            asked(source)


def test_a_rule_of_no_module_runs():
    """As one has that is typed where nothing has a name: by `exec`."""
    space = {}
    exec("def seen(g, x): return g.tanh(x)\ndef put(g, x): return g.sin(x)", space)
    rule = surgeon.rule(patterns=[space["seen"]], target="any", name="typed")(space["put"])
    assert rewrite(graph("a = Abs(x) y = Tanh(a)"), rule, check="none")[1].count("typed") == 1


def test_two_rules_of_one_name_both_run():
    one = make(lambda g, x: g.tanh(x), lambda g, x: g.sin(x), name="same")
    two = make(lambda g, x: g.abs(x), lambda g, x: g.cos(x), name="same")
    after, report = rewrite(graph("a = Abs(x) y = Tanh(a)"), [one, two], check="none")
    assert ops(after.graph) == ["Cos", "Sin"]
    assert report.count("same") == 2


def test_files(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    assert names("./mine.py") == {"./mine.py": ["relu_tanh", "sin_cos"]}
    assert names("mine.py:sin_cos") == {"mine.py:sin_cos": ["sin_cos"]}
    assert names(f"{tmp_path}/mine.py") == {f"{tmp_path}/mine.py": ["relu_tanh", "sin_cos"]}
    after, report = rewrite(graph("t = Tanh(x) y = Relu(t)"), "./mine.py", check="none")
    assert report.count("./mine.py") == 1
    assert ops(after.graph) == ["fused"]
    with pytest.raises(RuleError, match="has no rule 'other'. Its rules: relu_tanh, sin_cos"):
        resolve("./mine.py:other")
    with pytest.raises(RuleError, match=r"Rule file not found: none.py"):
        resolve("./none.py")


def test_a_file_that_was_edited_is_read_again(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(RULES)
    assert list(names(str(path)).values()) == [["relu_tanh", "sin_cos"]]
    path.write_text(RULES.replace("def sin_cos", "def other_name"))
    assert list(names(str(path)).values()) == [["relu_tanh", "other_name"]]


def test_a_rule_file_imports_what_lies_beside_it(tmp_path):
    """Each its own neighbour, also where two are called alike, and nothing is left on the path."""
    path = list(sys.path)
    for folder, op in (("one", "tanh"), ("other", "sin")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "neighbour_of_rules.py").write_text(f"def form(g, x):\n    return g.{op}(x)\n")
        (tmp_path / folder / "mine.py").write_text(
            "import neighbour_of_rules\nfrom surgeon import rule\n\n"
            "@rule(patterns=[neighbour_of_rules.form], target='any')\ndef mine(g, x):\n    return g.abs(x)\n"
        )
    try:
        for folder in ("one", "other"):
            (made,) = unique_rules(resolve(str(tmp_path / folder / "mine.py")))
            (pattern,) = (found.pattern for found in made.compiled(made.patterns[0]))
            assert pattern.outputs[0].operation.op == ("Tanh" if folder == "one" else "Sin")
        assert sys.path == path
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("mine")
    finally:
        sys.modules.pop("neighbour_of_rules", None)


def test_what_a_neighbour_helps_to_implement_reaches_the_process_that_runs_it(tmp_path):
    (tmp_path / "helper_of_rules.py").write_text("def twice(x):\n    return x + x\n")
    (tmp_path / "mine.py").write_text(
        "import helper_of_rules\nimport surgeon\n\n@surgeon.implements('acme::Twice')\n"
        "def twice(x):\n    return helper_of_rules.twice(x)\n\n"
        "@surgeon.rule(patterns=[lambda g, x: g.op('acme::Twice', x)], target='any')\n"
        "def doubled(g, x):\n    return g.add(x, x)\n"
    )
    head = '<ir_version: 8, opset_import: ["": 17, "acme": 1]> '
    model = parse(head + "g (float[n] x) => (float[n] y) { y = acme.Twice(x) }")
    try:
        assert str(rewrite(model, str(tmp_path / "mine.py"))[1].outcome) == "proved"
    finally:
        sys.modules.pop("helper_of_rules", None)
        surgeon.runtime.implementations.implementation.unregister("acme::Twice")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def broken(:\n", r"raised SyntaxError: [^(]+ \(wrong.py:1\)\.$"),
        (
            "from surgeon import rule\n@rule(pattern=[])\ndef mine(g, x):\n    return x\n",
            r"unexpected keyword argument 'pattern' \(wrong.py:2\)\. Did you mean patterns=\?$",
        ),
        ("import no_such_module\n", r"wrong.py raised ModuleNotFoundError: No module [^(]+ \(wrong.py:1\)\.$"),
        ("x = 1\n", "defines no rule"),
        ("from surgeon import rule\n@rule(patterns=[])\ndef empty(g, x):\n    return x\n", "has no pattern"),
    ],
)
def test_files_that_are_wrong_say_so_every_time(tmp_path, text, why):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(RuleError, match=why):
            resolve(str(path))


def test_an_error_of_the_file_itself_comes_through_every_time(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text("raise ValueError('my own words')\n")
    for _ in range(2):
        with pytest.raises(RuleError, match="wrong.py.*ValueError: my own words"):
            resolve(str(path))


def test_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "otherpack").mkdir()
    (tmp_path / "otherpack" / "__init__.py").write_text("")
    (tmp_path / "otherpack" / "act.py").write_text(RULES)
    importlib.invalidate_caches()
    assert names("otherpack.act:relu_tanh") == {"otherpack.act:relu_tanh": ["relu_tanh"]}
    with pytest.raises(RuleError, match=r"Module 'otherpack.missing' was not found"):
        resolve("otherpack.missing")
    for module in [item for item in sys.modules if item.startswith("otherpack")]:
        del sys.modules[module]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("geluu", "Did you mean 'gelu'"),
        ("bias_glu", "bias_gelu"),
        ("qqq", "lists all"),
        ("qelu:x", "gelu"),
        ("turned_ones", "Did you mean 'unit_dim_transpose'"),
        ("one_clip", "Did you mean 'consecutive_clips'"),
    ],
)
def test_an_unknown_name_lists_the_nearest(name, near):
    with pytest.raises(RuleError, match=near):
        resolve(name)


def test_old_names_lead_to_names_that_there_are():
    for old, new in surgeon.patterns.RENAMED.items():
        assert resolve(new)
        assert not is_known(old)


@pytest.mark.parametrize("name", ["", " , ", []])
def test_no_name_at_all(name):
    with pytest.raises(RuleError, match="--rules is empty"):
        resolve(name)


def test_only_excluded_rules():
    with pytest.raises(RuleError, match="--rules selects no rule"):
        resolve("-gelu")


def test_a_third_party_pack_is_found_like_the_built_in_one(pack):
    pack("otherpack", {"act": RULES, "_private": "raise RuntimeError('not to be imported')"})
    assert packs()["otherpack"] == ["otherpack.act"]
    assert "surgeon.patterns.activations.gelu" in packs()["builtin"]
    assert names("act") == {"act": ["relu_tanh", "sin_cos"]}
    assert names("sin_cos") == {"sin_cos": ["sin_cos"]}
    assert {"otherpack", "surgeon"} <= _packs()


def test_a_pack_may_be_one_module(pack):
    pack("otherpack", {"act": RULES}, "otherpack.act")
    assert packs()["otherpack"] == ["otherpack.act"]
    assert names("act:sin_cos") == {"act:sin_cos": ["sin_cos"]}


def test_packs_that_clash_are_named(pack):
    pack("otherpack", {"act": RULES})
    pack("thirdpack", {"act": RULES, "more": RULES.replace("sin_cos", "unique")})
    with pytest.raises(RuleError, match=r"Several rule packs have 'act'. Choose one: otherpack\.act, thirdpack\.act"):
        resolve("act")
    with pytest.raises(RuleError, match=r"Several rules are named 'relu_tanh'. Choose one: otherpack\.act:relu_tanh"):
        resolve("relu_tanh")
    assert names("unique") == {"unique": ["unique"]}
    assert names("thirdpack.act:relu_tanh") == {"thirdpack.act:relu_tanh": ["relu_tanh"]}


def test_a_pack_whose_distribution_was_renamed_is_one_pack(pack, tmp_path):
    """Its former name may still be installed beside the new one, and both name the same module."""
    pack("otherpack", {"act": RULES})
    former = tmp_path / "other_pack_before-0.9.dist-info"
    former.mkdir()
    (former / "METADATA").write_text("Metadata-Version: 2.1\nName: other-pack-before\nVersion: 0.9\n")
    (former / "entry_points.txt").write_text("[surgeon.rules]\notherpack = otherpack\n")
    importlib.invalidate_caches()
    assert packs()["otherpack"] == ["otherpack.act"]
    assert names("act") == {"act": ["relu_tanh", "sin_cos"]}


def test_a_file_of_a_pack_given_by_its_path_imports_from_beside_itself(pack, tmp_path):
    """As in `--rules patterns/activations/gelu.py` in a checkout.  A copy elsewhere is told what to write instead."""
    pack("otherpack", {"act": "from .more import sin_cos as other\n" + RULES, "more": RULES})
    assert names(f"{tmp_path / 'otherpack' / 'act.py'}:relu_tanh") == {
        f"{tmp_path / 'otherpack' / 'act.py'}:relu_tanh": ["relu_tanh"]
    }
    copy = tmp_path / "act.py"
    copy.write_bytes((tmp_path / "otherpack" / "act.py").read_bytes())
    with pytest.raises(RuleError, match="relative import .*: write the name of the pack before the dot"):
        resolve(str(copy))


def test_a_pack_that_is_gone_is_named(pack):
    pack("otherpack", {"act": RULES}, "no_such_pack.rules")
    with pytest.raises(RuleError, match=r"'otherpack' points to 'no_such_pack.rules', which is not installed"):
        resolve("anything")


def test_a_pack_s_own_helpers_stay_in_it(pack):
    """Rules of an installed pack see surgeon's helpers and the pack's own, not those of the user."""
    import onnx_graphsurgeon as gs

    pack(
        "otherpack",
        {
            "act": RULES.replace("g.relu(", "g.twice_relu(").replace(
                "from surgeon",
                """
import onnx_graphsurgeon as gs
@gs.Graph.register()
def twice_relu(self, a):
    return self.relu(self.relu(a))

from surgeon""",
                1,
            )
        },
    )
    before = dict(gs.Graph.GLOBAL_FUNC_MAP)
    try:
        gs.Graph.GLOBAL_FUNC_MAP["tanh"] = lambda self, a: self.sin(a)
        after, _ = rewrite(graph("t = Tanh(x) r = Relu(t) y = Relu(r)"), "relu_tanh", check="none")
    finally:
        gs.Graph.GLOBAL_FUNC_MAP.clear()
        gs.Graph.GLOBAL_FUNC_MAP.update(before)
    assert ops(after.graph) == ["fused"]
    assert isinstance(Graph(), gs.Graph)


def test_approximate_rules_are_run_where_they_are_named(tmp_path):
    """By themselves, or by --approximate; naming their file is not enough, and leaving rules out comes first."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from surgeon import rule\n"
        "@rule(patterns=[lambda g, x: g.erf(x)], approximate=1e-3)\n"
        "def rough(g, x):\n    return g.tanh(x)\n"
        "@rule(patterns=[lambda g, x: g.neg(x)])\n"
        "def fine(g, x):\n    return g.mul(x, -1.0)\n"
    )

    def names(*wanted, **settings):
        return [rule.name for rule in unique_rules(resolve(wanted, **settings))]

    assert names(str(path), approximate=False) == ["fine"]
    assert names(str(path), approximate=True) == ["rough", "fine"]
    assert names(f"{path}:rough", approximate=False) == ["rough"]
    assert names(f"{path},-{path}:rough", approximate=False) == ["fine"], "left out twice"
    with pytest.raises(RuleError, match=f"^All rules of '{path}' are approximate. Choose one, for example "):
        names(f"{path},-{path}:fine", approximate=False)


def test_a_rule_differs_for_inputs_that_there_are():
    """`differs` names edges of a dtype; what is left of a proof is told by a rule's own tests."""
    with pytest.raises(RuleError, match="differs has an unknown kind of input 'zeroes'. Known kinds: backwards"):
        make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), differs={"zeroes": "never"})
    made = make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), differs={"zeros": "the sign of zero"})
    assert not made.is_exact


def test_a_rule_is_unsuited_for_a_target_that_takes_its_form():
    """It has nothing for such a target, and says why; others that take the same kind of form have it."""
    settings = {"target": "onnx"}
    made = make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), unsuited={"tensorrt": "it is so"}, **settings)
    assert made.plan("tensorrt", 20) == Unavailable(f"rule {made.name} is not for target tensorrt: it is so")
    assert isinstance(made.plan("onnx", 20), RulePlan)
    assert "tensorrt" in made.targets


class TestRequireInAForm:
    """A form that refuses whatever is matched says why, for its own target alone."""

    WHY = "standard ONNX has no such node"

    def refusing(self):
        made = make(lambda g, x: g.relu(g.tanh(x)), lambda g, x: g.ms_gelu(x))

        @made.on("onnx")
        def _(g, x):
            require(False, self.WHY)
            return g.gelu(x)

        return made

    @pytest.mark.parametrize("target", ["onnx", "contrib", "decomposed", "ort"])
    def test_other_targets_are_as_without_it(self, target):
        model = parse("(float[n] x) => (float[n] y) { m = Tanh(x) y = Relu(m) }")
        out, report = rewrite(model, self.refusing(), target=target, check="none")
        assert report.counts.popitem()[1] == (target in ("ort", "contrib")), target
        assert [miss.reason for miss in report.misses if miss.node] == [self.WHY] * (target == "onnx")

    def test_what_the_others_write_is_taken_apart(self):
        model = parse("(float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }")
        out, _ = rewrite(model, self.refusing(), target="decomposed", check="none")
        assert ops(out.graph) == ["Tanh", "Relu"]

    def test_a_pattern_that_does_is_wrong(self):
        def never(g, x):
            require(False, "no match will do")
            return g.tanh(x)

        made = make(never, lambda g, x: g.abs(x))
        with pytest.raises(RuleError, match=r"pattern never rejects every match \(no match will do\)\. Call require"):
            rewrite(parse("(float[n] x) => (float[n] y) { y = Tanh(x) }"), made)


class TestDtypes:
    """A rule for some dtypes alone."""

    @pytest.mark.parametrize(
        ("given", "held"),
        [
            ("floats", ("float16", "bfloat16", "float32", "float64")),
            ("float", ("float32",)),
            (["half", "floats"], ("float16", "bfloat16", "float32", "float64")),
            (["float32", "bfloat16"], ("float32", "bfloat16")),
            ((), ()),
        ],
    )
    def test_they_are_known_by_name(self, given, held):
        assert make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), dtypes=given).dtypes == held

    def test_what_is_none_is_said_when_the_rule_is_defined(self):
        with pytest.raises(RuleError, match="^'float33' is not an ONNX dtype"):
            make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), dtypes="float33")

    @pytest.mark.parametrize(
        ("dtype", "fires"), [("float", True), ("float16", True), ("double", False), ("int32", False)]
    )
    def test_what_a_match_makes_decides(self, dtype, fires):
        made = make(lambda g, x: g.abs(g.neg(x)), lambda g, x: g.abs(x), dtypes=("float16", "float32"))
        model = parse(f"({dtype}[n] x) => ({dtype}[n] y) {{ m = Neg(x) y = Abs(m) }}")
        _, report = surgeon.rewrite(model, made, check="none")
        assert report.counts == {made.name: int(fires)}
        if not fires:
            (miss,) = surgeon.explain(model, made)
            assert (miss.kind, miss.at, miss.wanted) == ("dtype", "y", "float16 or float32")
            assert miss.reason.endswith(f"or float32, but the dtype of its output 'y' is {miss.found}")

    def test_an_unknown_dtype_is_refused(self):
        made = make(lambda g, x: g.op("acme::b", g.op("acme::a", x)), lambda g, x: g.abs(x), dtypes="floats")
        model = parse("""<ir_version: 8, opset_import: ["": 17, "acme": 1]>
            g (float[n] x) => (float[n] z) { m = acme.a(x) y = acme.b(m) z = acme.c(y) }""")
        (miss,) = surgeon.explain(model, made)
        assert miss.found == "unknown"

    def test_the_manual_says_so(self):
        made = make(lambda g, x: g.neg(x), lambda g, x: g.sub(0.0, x), dtypes=["float32", "float16"])
        assert "  It supports only float32 or float16." in text_of(made).splitlines()


class TestGroups:
    """Rules by what people want."""

    def test_each_holds_rules_and_approximate_ones_only_by_name(self):
        named = {member.rpartition(":")[2] for members in groups().values() for member in members}
        for name in groups():
            found = unique_rules(resolve(name, approximate=False))
            assert found, name
            assert all(rule.is_exact or rule.name in named for rule in found), name

    PARTS = ("placeholders", "cleanup", "attentions", "norms", "activations")

    def test_ort_holds_what_its_parts_hold_in_their_order(self):
        names = [rule.name for rule in unique_rules(resolve("ort"))]
        parts = list(dict.fromkeys(rule.name for part in self.PARTS for rule in unique_rules(resolve(part))))
        assert names[: len(parts)] == parts
        assert len(set(names)) == len(names)
        assert names.index("gelu") < names.index("bias_gelu") < names.index("fused_matmul")

    def test_every_rule_of_ort_has_a_form_for_it(self):
        assert not [rule.name for rule in unique_rules(resolve("ort")) if isinstance(rule.plan("ort", 24), Unavailable)]

    def test_one_is_left_out(self):
        names = [rule.name for rule in unique_rules(resolve("ort,-bias_gelu"))]
        assert "bias_gelu" not in names
        assert len(names) == len(unique_rules(resolve("ort"))) - 1

    def test_a_group_is_left_out(self):
        assert not set(unique_rules(resolve("ort,-cleanup"))) & set(unique_rules(resolve("cleanup")))

    def test_a_group_that_holds_itself_is_refused(self, monkeypatch):
        monkeypatch.setattr(surgeon.patterns, "GROUPS", {"one": ("two",), "two": ("one",)})
        with pytest.raises(
            RuleError, match=r"'one' contains itself \(one > two > one\)|'one' contains itself \(one > two\)"
        ):
            resolve("one")

    def test_a_group_that_names_what_is_not_there_is_refused(self, monkeypatch):
        monkeypatch.setattr(surgeon.patterns, "GROUPS", {"one": ("gelu", "gelo")})
        with pytest.raises(RuleError, match="No rule named 'gelo'"):
            resolve("one")

    @pytest.mark.skipif(not KERNELS_OF_ALL_RULES, reason="this ONNX Runtime's LayerNormalization is taken back")
    def test_rules_run_as_a_group(self):
        """A normalisation, the residual in front of it and an activation behind it, each in its place."""
        model = parse(
            "(float[n, 3, 4] x, float[n, 3, 4] z) => (float[n, 3, 4] y) <float[4] s = {1, 2, 3, 4}, "
            "float[4] b = {4, 3, 2, 1}, float e = {1e-5}, float two = {2}> { a = Identity(x) t = Add(a, z) "
            "m = ReduceMean<axes = [-1]>(t) d = Sub(t, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p) "
            "w = Add(v, e) q = Sqrt(w) n = Div(d, q) k = Mul(n, s) l = Add(k, b) g = Sigmoid(l) y = Mul(l, g) }"
        )
        after, report = rewrite(model, "ort", check="both")
        assert [node.op_type for node in after.graph.node] == ["Sum", "LayerNormalization", "QuickGelu"]
        assert report.outcome == "proved"
        after, _ = rewrite(model, "ort", ep="cuda", check="none")
        assert [node.op_type for node in after.graph.node] == ["SkipLayerNormalization", "QuickGelu"]

    @pytest.mark.parametrize("name", ["ort", "norms", "transformers"])
    def test_a_group_writes_the_residual_as_a_sum_before_it_fuses_it(self, name):
        """On a CPU the fused node is slower than the two; for other providers the first rule is not."""
        names = [rule.name for rule in unique_rules(resolve(name))]
        for one, other in (("residual_sum", "skip_layer_norm"), ("residual_rms_sum", "skip_rms_norm")):
            assert names.index(one) < names.index(other)


def test_a_checkout_that_is_not_installed_has_its_rules(monkeypatch):
    """Whoever puts the folder on Python's path alone has no entry points, and asks for gelu all the same."""
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: iter(()))
    points_of.cache_clear()
    try:
        assert list(packs()) == ["builtin"]
        assert [rule.name for rule in unique_rules(resolve("gelu"))] == ["gelu", "gelu_tanh", "quick_gelu"]
        assert "ort" in groups()
    finally:
        points_of.cache_clear()
