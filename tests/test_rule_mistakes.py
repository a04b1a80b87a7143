"""Mistakes of those who write rules: each is told in one sentence, with its file and line, before a model is opened."""

import pytest

import surgeon
from surgeon import RewriteError, RuleError
from surgeon.rules.catalogue import resolve
from surgeon.testing import parse

HEAD = "from surgeon import Captures, Graph, Tensor, dims, require, rule\n"
PATTERN = '''
def form(g: Graph, x: Tensor) -> Tensor:
    """What is looked for."""
    return g.relu(x)
'''
RULE = '''
@rule(patterns=[form], target="any")
def written(g: Graph, x: Tensor) -> Tensor:
    """Write one node."""
    return g.op("acme::written", x)
'''
RECORD = '''
class Held(Captures):
    """What is captured."""
    x: Tensor = dims("rows columns")

def form(g: Graph, m: Held) -> Tensor:
    """What is looked for."""
    return g.relu(m.x)

@rule(patterns=[form], target="any")
def written(g: Graph, m: Held) -> Tensor:
    """Write one node."""
    return g.op("acme::written", m.x)
'''
OBJECT = "from functools import partial\nclass Form:\n    def __call__(self, g, x):\n        return g.relu(x)\n"


def pattern(text):
    return HEAD + PATTERN.replace("g.relu(x)", text) + RULE


def argument(text):
    return HEAD + PATTERN + RULE.replace("patterns=[form]", text)


MISTAKES = {
    "a condition alone": (argument("patterns=[form], conditions=form"), r"wrong\.py:\d+\): conditions must be a list"),
    "a rule as a condition": (
        argument("patterns=[form]")
        + RULE.replace("[form]", "[form], conditions=[written]").replace("def w", "def rew"),
        r"rewritten \(wrong\.py:\d+\): conditions must be a list of functions",
    ),
    "an object as a pattern": (HEAD + OBJECT + RULE.replace("[form]", "[Form()]"), "patterns must be a list"),
    "a partial as a pattern": (HEAD + PATTERN + OBJECT + RULE.replace("[form]", "[partial(form)]"), "must be a list"),
    "no name": (argument("patterns=[form], name=''"), r"name must be a .*, got ''"),
    "a number as a name": (argument("patterns=[form], name=5"), "name must be a .*, got 5"),
    "a text as an opset": (argument("patterns=[form], opset='18'"), "opset must be a version of ai.onnx, .* got '18'"),
    "a list as a target": (argument("patterns=[form]").replace('"any"', "['ort']"), r"target must be .* got \['ort'\]"),
    "a text as a part": (argument("patterns=[form], approximate='much'"), "approximate must be .* got 'much'"),
    "no dtype": (argument("patterns=[form], dtypes='float33'"), r"wrong\.py:\d+: 'float33' is not an ONNX dtype"),
    "no op": (pattern("g.op('', x)"), r"wrong\.py:\d+\): '' is not the name of an op"),
    "a number as an op": (pattern("g.op(5, x)"), "5 is not the name of an op"),
    "one colon": (pattern("g.op('acme:relu', x)"), "'acme:relu' is not the name of an op. Write domain and name"),
    "a space": (pattern("g.op('acme:: relu', x)"), "'acme:: relu' is not the name of an op"),
    "no outputs": (pattern("g.op('acme::relu', x, outputs=0)"), "Invalid outputs=0 of acme::relu"),
    "a claim of no function": (pattern("g.relu(g.such_that(x, 5))"), "such_that needs a function of the tensor"),
    "a claim of nothing": (pattern("g.relu(g.such_that(x, lambda: None))"), "such_that needs a function"),
    "a name of what it is made of": (
        pattern("g.capture('x', g.relu(x))"),
        r"wrong\.py:\d+\): this tensor already contains a capture 'x'",
    ),
    "a number before there is one": (
        HEAD + "import math" + PATTERN.replace("relu(x)", "leaky_relu(x, alpha=math.sqrt(x))") + RULE,
        r"wrong\.py:\d+\): a pattern is traced without a model, so the value of x is unknown",
    ),
    "all too deep": (
        HEAD + PATTERN.replace("return", "for _ in range(130):\n        x = g.tanh(x)\n    return") + RULE,
        r"wrong\.py:\d+\) nests more than 120 operations",
    ),
    "all exposed": (
        HEAD + PATTERN.replace("return", "for _ in range(30):\n        x = g.exposed(g.tanh(x))\n    return") + RULE,
        r"wrong\.py:\d+\): a pattern can expose at most 8 tensors",
    ),
    "a type that says nothing": (
        pattern("g.relu(x)").replace("x: Tensor", "x: set"),
        "x has the annotation set, which",
    ),
    "a value as a type": (pattern("g.relu(x)").replace("x: Tensor", "x: 5"), "x has the annotation 5, which a pattern"),
    "a plus behind an axis": (HEAD + RECORD.replace("rows c", "rows+ c"), r"wrong\.py:\d+: 'rows\+' in dims"),
    "a comma behind an axis": (HEAD + RECORD.replace("rows c", "rows, c"), "'rows,' in dims is not an axis"),
    "a negative axis": (HEAD + RECORD.replace("rows c", "-1 c"), "'-1' in dims is not an axis"),
    "half a product": (HEAD + RECORD.replace("rows c", "2* c"), r"'2\*' in dims is not an axis"),
    "a number as axes": (HEAD + RECORD.replace('"rows columns"', "2"), r"wrong\.py:\d+: dims expects names of axes"),
    "a field of every record": (HEAD + RECORD.replace("x: Tensor", "match: Tensor"), r"wrong\.py:\d+: Held"),
    "a rule in the place of another": (
        argument("patterns=[form]") + RULE,
        r"wrong\.py:13: rule written replaces the rule of the same name in line 8",
    ),
}


@pytest.mark.parametrize("title", MISTAKES)
def test_a_mistake_is_reported_with_its_line(title, tmp_path):
    text, reported = MISTAKES[title]
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(RuleError, match=reported):
        resolve(str(path))


FORMS = "@written.on('onnx')\ndef _(g, x):\n    return g.tanh(x)\n"
RIGHT = {
    "sizes that are computed": HEAD + RECORD.replace("rows columns", "... rows*2 2*columns? rows+1 _ 7"),
    "any axes by a name": HEAD + RECORD.replace("rows columns", "*ahead columns"),
    "axes with a dot and none": HEAD + RECORD.replace('"rows columns"', '".rows columns", ""'),
    "forms of one name": argument("patterns=[form]")
    + FORMS
    + FORMS.replace("onnx", "tensorrt"),
    "a claim of several": pattern("g.relu(g.such_that(x, lambda one, other: None, x))"),
    "a target of two": argument("patterns=[form]").replace('"any"', "{'onnx': 17, 'ort': 1}"),
    "any type": pattern("g.relu(x)").replace("x: Tensor", "x: object"),
}


@pytest.mark.parametrize("title", RIGHT)
def test_what_is_no_mistake_is_none(title, tmp_path):
    path = tmp_path / "right.py"
    path.write_text(RIGHT[title])
    assert [rule.name for rule in resolve(str(path))[str(path)]] == ["written"]


@pytest.mark.parametrize("value", ["x", "x.shape", "object()", "[1, 'a']"])
def test_what_no_attribute_can_hold_is_reported_by_its_name(tmp_path, value):
    path = tmp_path / "wrong.py"
    path.write_text(HEAD + PATTERN + RULE.replace("x)\n", f"x, alpha={value})\n"))
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    with pytest.raises(RuleError, match=r"written \(wrong\.py:\d+\): attribute alpha of written cannot be"):
        surgeon.rewrite(model, str(path), check="none")


def test_a_condition_and_its_sentence_the_other_way_round_do_not_hold(tmp_path):
    path = tmp_path / "wrong.py"
    condition = "def refuse(x):\n    require('x must be a matrix', x.rank == 2)\n"
    path.write_text(HEAD + PATTERN + condition + RULE.replace("[form]", "[form], conditions=[refuse]"))
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    with pytest.raises(RewriteError, match=r"TypeError: require needs a condition, then a message.*\(wrong\.py:\d+\)"):
        surgeon.rewrite(model, str(path), check="none")


@pytest.mark.parametrize("compared", ["x.shape[0] > 2", "2 >= x.shape[0]", "max(x.shape) < 9"])
def test_a_size_that_is_not_fixed_is_neither_larger_nor_smaller(tmp_path, compared):
    """The site is refused, and told why; one of fixed sizes is not."""
    path = tmp_path / "compared.py"
    condition = f"def fits(x):\n    require({compared}, 'x has another size')\n"
    path.write_text(HEAD + PATTERN + condition + RULE.replace("[form]", "[form], conditions=[fits]"))
    free = parse("(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    fixed = parse("(float[5, 4] x) => (float[5, 4] y) { y = Relu(x) }")
    reason = surgeon.explain(free, str(path))[0].reason
    assert reason.startswith("the size n is not fixed, so it cannot be compared with ")
    assert len(list(surgeon.find(fixed, str(path)))) == (0 if compared.startswith("2") else 1)


def test_an_op_of_any_number_of_outputs_may_have_one():
    """If, whose bodies the pattern does not say: one output is said as any other number is."""

    def chosen(g, c, **attributes):
        return g.relu(g.op("If", c, outputs=1, **attributes))

    def turned(g, c, **attributes):
        bodies = {"then_branch": attributes["else_branch"], "else_branch": attributes["then_branch"]}
        return g.op("If", g.op("Not", c), outputs=1, **bodies)

    made = surgeon.rule(patterns=[chosen], target="any", name="turned")(turned)
    model = parse("""(bool c, float[n] x) => (float[n] y) {
        a = If(c) <then_branch = one () => (float[n] p) { p = Tanh(x) },
                   else_branch = two () => (float[n] q) { q = Abs(x) }>
        y = Relu(a) }""")
    after, _ = surgeon.rewrite(model, made, check="none")
    assert [node.op_type for node in after.graph.node] == ["Not", "If"]
    with pytest.raises(RuleError, match="If can have any number of outputs. Give the number"):
        list(surgeon.find(model, surgeon.rule(patterns=[lambda g, c: g.op("If", c)], target="any")(turned)))
