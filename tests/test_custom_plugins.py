"""Custom TensorRT plugins: declared, written for a placeholder, checked and proved."""

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import UsageError
from surgeon.ops.plugins.builtin_plugins import plugins
from surgeon.ops.plugins.plugin_declaration import own_plugins
from surgeon.runtime.processes.worker import Task, Worker
from surgeon.runtime.tensorrt.library import installed
from surgeon.runtime.tensorrt.parser_tasks import PluginRequest
from surgeon.testing import parse
from tests.command_line import run

TABLE = """
[Scaled]
version = "2"
namespace = "mine"
inputs = { x = "float32 float16", "bias?" = "x" }
outputs = { y = "x" }
fields = { alpha = "float", "mode?" = "string", "sizes?" = "int[2]" }
"""
IMPLEMENTED = """
import surgeon

@surgeon.implements("mylib::scaled")
def scaled(x, bias=None, *, factor=1.0, mode="none"):
    return x * x.dtype.type(factor)

@surgeon.implements("trt.plugins::Scaled")
def plugin(x, bias=None, *, alpha=1.0, mode="none", **_):
    return x * x.dtype.type(alpha)
"""


NO_PARSER = pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
pytestmark = pytest.mark.usefixtures("forget_implementations")


def placeholder(call="y = mylib.scaled<factor = 2.0, mode = \"fast\">(x)"):
    return parse(
        f'<ir_version: 9, opset_import: ["" : 17, "mylib" : 1]> g (float[2, 4] x) => (float[2, 4] y) {{ {call} }}'
    )


@pytest.fixture
def files(tmp_path):
    (tmp_path / "plugins.toml").write_text(TABLE)
    (tmp_path / "impl.py").write_text(IMPLEMENTED)
    onnx.save(placeholder(), tmp_path / "in.onnx")
    return tmp_path


def test_a_placeholder_becomes_the_plugin_that_is_named_and_is_proved(files):
    """By the user's implementations of both; the names of attributes are mapped, and the declaration tells the rest."""
    arguments = ["--target", "tensorrt", "--plugin", "mylib::scaled=Scaled,factor=alpha"]
    custom = [f"--custom-ops={files / name}" for name in ("plugins.toml", "impl.py")]
    done = run("rewrite", str(files / "in.onnx"), str(files / "out.onnx"), *arguments, *custom)
    assert done.exit_code == 0, done.output
    assert "PROVED" in done.output.upper()
    (node,) = onnx.load(files / "out.onnx").graph.node
    reported = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert (node.domain, node.op_type) == ("trt.plugins", "Scaled")
    assert reported == {"alpha": 2.0, "mode": b"fast", "plugin_version": b"2", "plugin_namespace": b"mine"}
    checked = run("check", str(files / "out.onnx"), "--target", "tensorrt", custom[0])
    assert checked.exit_code == 0, checked.output


def test_a_node_is_compared_with_what_was_declared(files):
    surgeon.CheckOptions(custom_ops=[files / "plugins.toml"])
    _, report = surgeon.rewrite(
        placeholder("y = mylib.scaled<beta = 2.0>(x)"),
        surgeon.plugin_rule("mylib::scaled", "Scaled"),
        target="tensorrt",
        check="none",
    )
    assert not report.sites
    assert "Scaled has no attribute 'beta'" in report.misses[0].reason
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "trt.plugins" : 1]> g (float[2, 4] x) => (float[2, 4] y) '
        '{ y = trt.plugins.Scaled<alpha = 2, plugin_version = "2">(x) }'
    )
    reasons = [one.reason for one in surgeon.check(model, "tensorrt", load=False)]
    assert any("'alpha' of Scaled must be a number, not an integer" in reason for reason in reasons)
    assert any('write plugin_namespace="mine"' in reason for reason in reasons)


def test_a_declaration_in_python_is_the_same():
    surgeon.declare_plugin("Mine", inputs={"a": "float32", "b?": "a"}, outputs={"c": "any"}, fields={"n": "int[]"})
    (found,) = plugins()["Mine"]
    assert [(port.name, port.dtypes, port.like, port.optional) for port in found.inputs] == [
        ("a", ("float",), "", False),
        ("b", (), "a", True),
    ]
    assert (found.outputs[0].dtypes, found.attributes["n"].length, found.version) == ((), 0, "1")
    assert "ModulatedDeformConv2d" in plugins()


def shapes_behind(call, version=""):
    from surgeon.file.model import Model
    from surgeon.ir.index import Index
    from surgeon.shapes.index_shapes import shapes_of

    given = f', plugin_version = "{version}"' if version else ""
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "trt.plugins" : 1]> '
        f"g (float16[n, 3, h, 20] x, float[5, 4] r) => (y) {{ a = trt.plugins.{call.replace('>', given + '>')} "
        "y = Relu(a) }"
    )
    with Model.open(model) as opened:
        index = Index(opened)
        dtype, shape = shapes_of(index).facts(index.main, "y")
        return dtype, None if shape is None else [str(size) for size in shape]


def test_what_stands_behind_a_plugin_is_known_by_the_shapes_declared():
    """Sizes of inputs by name, arithmetic on them, and fields of one integer; another version says nothing."""
    surgeon.declare_plugin(
        "Grown",
        inputs={"x": "float16 float32", "rows?": "any"},
        outputs={"y": "x"},
        fields={"size": "int", "factor?": "float"},
        shapes={"x": "n c h w", "rows": "k four", "y": "n*k c 2*h+1 size"},
    )
    assert shapes_behind("Grown<size = 7>(x, r)") == (10, ["5*n", "3", "2*h + 1", "7"])
    dtype, shape = shapes_behind("Grown<size = 7>(x)")
    assert (dtype, shape[1:]) == (10, ["3", "2*h + 1", "7"])
    assert shape[0].startswith("?")
    assert shapes_behind("Grown<size = 7>(r)") == (None, None)  # of another rank than was declared
    assert shapes_behind("Grown<size = 7>(x, r)", "2") == (None, None)


@NO_PARSER
def test_the_parser_sees_what_stands_behind_a_plugin_of_known_shapes():
    """The node is left out, and what it makes becomes an input of the network."""
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "trt.plugins" : 1]> g (float[n, 3, 3] x) => (float[n] y) '
        "{ a = trt.plugins.Turned(x)  b = Det(a)  y = Relu(b) }"
    )
    known = {"inputs": {"x": "float32"}, "outputs": {"y": "x"}}
    surgeon.declare_plugin("Turned", **known)
    assert not surgeon.check(model, "tensorrt").runtime.is_whole
    surgeon.declare_plugin("Turned", **known, shapes={"x": "n h w", "y": "n w h"})
    found = surgeon.check(model, "tensorrt")
    assert found.runtime.is_whole
    assert found[0].helps[0].startswith("rule det fires")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[A]\nversion = 1\n", "Invalid version of [A]: 1. Write strings, as in version = \"1\""),
        (
            "[A]\ninputs = 'x'\n",
            "Invalid inputs of [A]: 'x'. Write strings, as in inputs = { x = \"float32\" }",
        ),
        ("[A]\nkind = 'x'\n", "[A] has no key 'kind'; there are version, namespace, inputs and 3 more."),
        ("[A]\ninput = { x = 'any' }\n", "[A] has no key 'input'; did you mean 'inputs'?"),
        ("[A]\nVersion = '1'\n", "[A] has no key 'Version'; did you mean 'version'?"),
        ("[A]\nname-space = 'n'\n", "[A] has no key 'name-space'; did you mean 'namespace'?"),
        ("[A]\nfields = { a = 'number' }\n", "'number' is not a kind of field"),
        ("[A]\ninputs = { a = 'float33' }\n", "The plugin 'A' cannot be declared: 'float33'"),
        ("[A]\nshapes = { x = 'n' }\n", "shapes contains 'x', which is neither an input nor an output"),
        ("[A]\ninputs = { x = 'any' }\nshapes = { x = 'n; c' }\n", "are not sizes; separate sizes by spaces"),
        (
            "[A]\ninputs = { x = 'any' }\noutputs = { y = 'x' }\nshapes = { x = 'n', y = 'n 2*m' }\n",
            "the size 'm' of 'y' is neither of an input nor a field",
        ),
        *(
            (f"[A]\ninputs = {{x = 'any'}}\noutputs = {{y = 'x'}}\nshapes = {{x = 'n', y = '{size}'}}\n", "not sizes")
            for size in ("2**", "(n", "n/0", "n%0", "1.5*n", "2**9999", "n,1", "n<2")
        ),
        ("[A\n", "Cannot read the plugin declarations"),
        ("A = 3\n", "'A' is not in a table. Start each plugin with [PLUGIN]"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"[.?]$") as caught:
        surgeon.CheckOptions(custom_ops=path)
    assert words in str(caught.value)
    assert not own_plugins()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "tensorrt", "--plugin", "scaled"], "Invalid plugin 'scaled'. Examples: mylib::op=MyPlugin:1"),
        (["--plugin", "mylib::scaled=Scaled"], "--plugin needs --target tensorrt, but the target is ort"),
        (
            ["--target", "tensorrt", "--plugin", "mylib::scaled=Scaled,factor=alpha,mode=alpha"],
            "Two attributes set the field alpha of Scaled",
        ),
        (
            ["--target", "tensorrt", "--plugin", "mylib::scaled=Scaled,factor=plugin_version"],
            "An attribute cannot set plugin_version of Scaled. Give the version after the name: Scaled:2",
        ),
    ],
)
def test_a_plugin_that_is_named_wrongly_is_one_sentence(files, arguments, words):
    done = run("rewrite", str(files / "in.onnx"), str(files / "out.onnx"), *arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert not (files / "out.onnx").exists()


def test_a_library_of_plugins_that_is_not_there_is_one_sentence():
    with pytest.raises(UsageError, match="Plugin library not found: gone.so"):
        surgeon.check(placeholder(), "tensorrt", custom_ops=["gone.so"])


def test_a_misspelt_declaration_names_the_declared_plugins(files):
    """The reader has given a declaration already, so the help does not ask for one."""
    model = placeholder("y = mylib.Scald<alpha = 2.0>(x)")
    model.opset_import[1].domain = model.graph.node[0].domain = "trt.plugins"
    onnx.save(model, files / "misspelt.onnx")
    done = run("check", files / "misspelt.onnx", "--target", "tensorrt", "--custom-ops", files / "plugins.toml")
    assert done.exit_code == 1
    assert "declared are: Scaled" in done.output
    assert "declare the plugin in" not in done.output


@NO_PARSER
def test_a_build_without_the_plugin_decides_nothing(files):
    """The model may be right, but no engine shows it: neither OK nor exit code 0."""
    model = placeholder('y = mylib.Scaled<alpha = 2.0, plugin_version = "2", plugin_namespace = "mine">(x)')
    model.opset_import[1].domain = model.graph.node[0].domain = "trt.plugins"
    onnx.save(model, files / "plugin.onnx")
    words = ("check", files / "plugin.onnx", "--target", "tensorrt", "--custom-ops", files / "plugins.toml")
    assert run(*words).exit_code == 0
    done = run(*words, "--build")
    assert done.exit_code == 2
    assert "UNKNOWN" in done.output
    assert "no engine was built" in done.output
    assert "no problems found" not in done.output


def handed(model, plugin):
    """What TensorRT hands to a creator of a plugin for the first node of a model."""
    child = Worker()
    try:
        known = plugin.name, plugin.version, plugin.namespace, list(plugin.attributes)
        asked = PluginRequest(installed().module, model.SerializeToString(), *known)
        return child.run(Task("surgeon.runtime.tensorrt.parser_tasks:create", asked, 60.0)).value
    finally:
        child.end()


KINDS = {"int": "INT32", "float": "FLOAT32", "string": "CHAR"}


@NO_PARSER
@pytest.mark.parametrize(
    "name",
    [
        "ModulatedDeformConv2d",
        "MultiscaleDeformableAttnPlugin_TRT",
        "EfficientNMS_TRT",
        "GroupNormalizationPlugin",
        "InstanceNormalization_TRT",
        "ScatterElements",
        "DisentangledAttention_TRT",
    ],
)
def test_what_is_written_by_the_tables_reaches_a_creator(name):
    """Found by name, version and namespace, each field of the kind and length that the table says."""
    plugin = plugins()[name][-1]
    fields = {}
    for one in plugin.attributes.values():
        length = one.length or 2
        value = {"int": 1, "float": 0.5, "string": "add", "weights": 0.5}[one.kind]
        fields[one.name] = value if one.kind == "string" or one.length == 1 else [value] * length
    inputs, outputs = [port.name for port in plugin.inputs], [port.name for port in plugin.outputs]
    version = {"plugin_version": plugin.version, "plugin_namespace": plugin.namespace}
    node = onnx.helper.make_node(name, inputs, outputs, domain="trt.plugins", **fields, **version)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "g", [value(one, 1, [1, 4, 4, 4]) for one in inputs], [value(one, 1, [1, 4, 4, 4]) for one in outputs]
    )
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("trt.plugins", 1)]
    reported = handed(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), plugin)
    assert reported["is_called"]
    for one in plugin.attributes.values():
        kind, size = reported["fields"][one.name]
        assert kind == KINDS.get(one.kind, "FLOAT32")
        assert one.kind == "string" or not one.length or size == one.length


@NO_PARSER
def test_a_creator_is_not_called_for_another_version():
    plugin = plugins()["ModulatedDeformConv2d"][0]
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "trt.plugins" : 1]> g (float[2, 4] x) => (float[2, 4] y) '
        '{ y = trt.plugins.ModulatedDeformConv2d<group = 1.5, plugin_version = "2">(x) }'
    )
    assert handed(model, plugin) == {"is_called": False, "fields": {}}
    reported = handed(model, plugins()["ModulatedDeformConv2d"][1])
    assert reported == {"is_called": True, "fields": {"group": ["FLOAT32", 1]}}  # of a wrong kind, and others missing


def test_the_rule_writes_what_the_placeholder_has():
    made, report = surgeon.rewrite(
        placeholder("y = mylib.scaled<factor = 2.0>(x, , x)"),
        surgeon.plugin_rule("mylib::scaled", "Nobodys", version="3"),
        target="tensorrt",
        check="none",
    )
    (node,) = made.graph.node
    assert list(node.input) == ["x", "", "x"]
    assert np.isclose(node.attribute[0].f, 2.0)
    assert report.count("plugin mylib::scaled") == 1


def test_what_is_no_name_is_reported():
    with pytest.raises(surgeon.UsageError, match="must be a non-empty string, the op type of its nodes, not 5"):
        surgeon.declare_plugin(5)


def rewritten(model, *arguments, **options):
    return surgeon.rewrite(model, surgeon.plugin_rule(*arguments, **options), target="tensorrt", check="none")


def test_no_attribute_is_lost_under_another_one_s_name():
    """`factor` would have been `mode`, which the node has too."""
    _, report = rewritten(placeholder(), "mylib::scaled", "Nobodys", fields={"factor": "mode"})
    assert not report.sites
    assert "two attributes of the node would set the field mode" in report.misses[0].reason
    made, _ = rewritten(placeholder(), "mylib::scaled", "Nobodys", fields={"factor": "mode", "mode": "factor"})
    reported = {item.name: onnx.helper.get_attribute_value(item) for item in made.graph.node[0].attribute}
    assert (reported["mode"], reported["factor"]) == (2.0, b"fast")


def test_the_newest_version_declared_is_written():
    """Not the one that was declared first."""
    for version in ("1", "3", "10", "9"):
        surgeon.declare_plugin("Mine", version=version)
        made, _ = rewritten(placeholder(), "mylib::scaled", "Mine")
        (written,) = [item.s for item in made.graph.node[0].attribute if item.name == "plugin_version"]
        assert written.decode() == {"9": "10"}.get(version, version)


def test_an_op_of_onnx_may_become_a_plugin():
    """ai.onnx::Relu is Relu."""
    made, _ = rewritten(placeholder("y = Relu(x)"), "ai.onnx::Relu", "MyRelu")
    assert [node.op_type for node in made.graph.node] == ["MyRelu"]


def test_the_hint_of_another_name_is_given_for_attributes_alone():
    surgeon.declare_plugin("Two", inputs={"a": "any", "b": "any"}, outputs={"c": "any"})
    _, report = rewritten(placeholder("y = mylib.scaled(x)"), "mylib::scaled", "Two")
    assert "Two has 2 inputs" in report.misses[0].reason
    assert "attribute=field" not in report.misses[0].reason


def test_an_integer_beyond_32_bits_is_reported():
    """TensorRT's parser cuts it."""
    surgeon.declare_plugin("Long", inputs={"a": "any"}, outputs={"c": "any"}, fields={"n": "int", "m": "int[]"})
    for fields, number in (("n = 2147483648, m = [1]", 2147483648), ("n = 1, m = [1, -9223372036854775808]", -(2**63))):
        model = parse(
            '<ir_version: 9, opset_import: ["" : 17, "trt.plugins" : 1]> g (float[2, 4] x) => (float[2, 4] y) '
            f"{{ y = trt.plugins.Long<{fields}>(x) }}"
        )
        reasons = [one.reason for one in surgeon.check(model, "tensorrt", load=False)]
        assert any(f"is {number}, but TensorRT passes 32-bit integers to plugins" in reason for reason in reasons)
