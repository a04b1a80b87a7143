"""Commands, models and rule files of the cases of printed commands."""

CHECK, TRT = "check IN", "check IN --target tensorrt --no-load"
REWRITE = "rewrite IN OUT --rules rules.py"
ADD_SIX = "<float three = {3}, float zero = {0}, float six = {6}>"


def at(opset: int, graph: str, **domains: int) -> str:
    """A model in ONNX text.  graph: from its inputs on."""
    imports = "".join(f', "{name.replace("_", ".")}" : {version}' for name, version in domains.items())
    return f'<ir_version: 8, opset_import: ["" : {opset}{imports}]> g {graph}'


RELU = at(17, "(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }")
HARD_SWISH = at(
    13,
    f"(float[2, 4] x) => (float[2, 4] y) {ADD_SIX} "
    "{ a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six) }",
)
PLACEHOLDER = at(17, "(float[2, 4] x) => (float[2, 4] y) { a = Relu(x) p = mylib.twice(a) y = Neg(p) }", mylib=1)
DETECTOR = (
    "(float[COUNT, 4] x) => (float[COUNT, 4] boxes, float[COUNT, 2] scores) "
    "<float[4, 2] v = {1, 2, 3, 4, 5, 6, 7, 8}> { boxes = Relu(x) t = MatMul(x, v) scores = Sigmoid(t) }"
)
FIXED_DETECTOR, FREE_DETECTOR = DETECTOR.replace("COUNT", "1, 3"), DETECTOR.replace("COUNT", "1, n")
UNTOLD_DETECTOR = FIXED_DETECTOR.replace("scores = Sigmoid(t)", "scores = Neg(t)")
SIZED_IF = at(
    17,
    "(float[batch, n] x) => (float[] y) <int64 one = {1}, int64[1] flat = {-1}> "
    "{ s = Shape(x) d = Gather(s, one) c = Equal(d, one) y = If(c) <then_branch = yes () => (float[] p) "
    "{ p = Reshape(x, flat) }, else_branch = no () => (float[] q) { q = Identity(x) }> }",
)
BAKED = at(17, "(float[batch, 4] x) => (float[batch, 2, 2] y) <int64[3] s = {2, 2, 2}> { y = Reshape(x, s) }")
FINISHED = (
    "(float[1, 9, 4] x) => (float[1, 9, 6] y) <float[4, 2] v = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] l = {-1}> "
    "{ boxes = Relu(x) t = MatMul(x, v) scores = Sigmoid(t) m = ReduceMax<axes = [2]>(scores) "
    "a = ArgMax<axis = 2>(scores) c = Cast<to = 1>(a) y = Concat<axis = 2>(boxes, m, c) }"
)
HEAD = "from surgeon import Graph, Tensor, function, rule\n\n\ndef twice(g: Graph, x: Tensor) -> Tensor:\n    "
DOUBLED = f"""{HEAD}return g.op("mylib::twice", x)


@rule(patterns=[twice], target="any")
def doubled(g: Graph, x: Tensor) -> Tensor:
    '''Write the double as a sum.'''
    return g.add(x, x)
"""
NEGATED = f"""{HEAD}return g.neg(g.neg(x))


@rule(patterns=[twice]ARGUMENTS)
def negated(g: Graph, x: Tensor) -> Tensor:
    """
TOO_NEW = NEGATED.replace("ARGUMENTS", ', target="any"') + "return g.gelu(x)\n"
NO_KERNEL = NEGATED.replace("ARGUMENTS", ", opset=14") + "return g.hard_swish(x)\n"
NO_DOUBLE = NEGATED.replace("ARGUMENTS", "") + "return g.tan(x)\n"
FUNCTION = """from surgeon import Graph, Tensor, function


@function("mylib::twice")
def twice(g: Graph, x: Tensor) -> Tensor:
    '''2 · x.'''
    return BODY
"""
RECIPE = """[[step]]
rules = "cleanup"
"""
ATTENTION = "y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 6]>(x, w)"
