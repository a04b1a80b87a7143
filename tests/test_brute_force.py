"""What is found in random graphs, held against a matcher that tries every binding and compares normal forms."""

import itertools
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon.testing import parse
from tests import sampling

CONSTANTS = [0.5, 2.0, 3.0, -1.5]
FUNCTIONS = {"Relu": lambda a: np.maximum(a, 0), "Tanh": np.tanh, "Sigmoid": lambda a: 1 / (1 + np.exp(-a))}
ARITHMETIC = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide, "Neg": np.negative}
LOOKED_THROUGH = {"Identity": {}, "Cast": {"to": 1}, "Dropout": {}}


def draw_pattern(draw, depth):
    """A tree: ("v", name), ("c", number), or an op and what it is of."""
    chosen = draw.random()
    if depth == 0 or chosen < 0.12:
        return ("v", draw.choice("xy"))
    if chosen < 0.45:
        return (draw.choice(list(FUNCTIONS)), draw_pattern(draw, depth - 1))
    op = draw.choice(["Add", "Mul", "Add", "Mul", "Sub", "Div"])
    first = draw_pattern(draw, depth - 1)
    second = ("c", draw.choice(CONSTANTS)) if draw.random() < 0.35 else draw_pattern(draw, depth - 1)
    return (op, second, first) if draw.random() < 0.5 and op in ("Add", "Mul") else (op, first, second)


def variables(tree):
    return {tree[1]} if tree[0] == "v" else set() if tree[0] == "c" else set().union(*map(variables, tree[1:]))


def count(tree):
    return 0 if tree[0] in "vc" else 1 + sum(map(count, tree[1:]))


def pattern_of(tree):
    def write(g, part, bound):
        if part[0] in "vc":
            return bound[part[1]] if part[0] == "v" else part[1]
        return getattr(g, part[0].lower())(*(write(g, item, bound) for item in part[1:]))

    if variables(tree) == {"x", "y"}:
        return lambda g, x, y: write(g, tree, {"x": x, "y": y})
    return lambda g, x: write(g, tree, dict.fromkeys("xy", x))


class Drawn:
    """A random model with a pattern planted in it, spelled at random, among nodes that read and copy parts of it."""

    def __init__(self, draw, tree):
        self.draw, self.nodes, self.stored, self.numbers = draw, [], [], {}
        self.tensors = ["a", "b"]
        self.noise(draw.randrange(4))
        for _ in range(draw.randrange(1, 4)):
            self.plant(tree, {name: draw.choice(self.tensors) for name in "xy"}, {})
            self.noise(draw.randrange(3))
        read = {name for node in self.nodes for name in node.input}
        self.makers = {node.output[0]: node for node in self.nodes if node.output[0] not in self.numbers}
        self.outputs = {name for name in self.makers if name not in read or draw.random() < 0.06}

    def add(self, op, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{name}", **attributes))
        self.tensors.append(name)
        return name

    def constant(self, number):
        """A number in one of its spellings: of rank 0 or 1, by a node, computed from another."""
        name, spelling = f"c{len(self.numbers)}", self.draw.randrange(4)
        value = np.full((1,) if spelling == 1 else (), -number if spelling == 3 else number, np.float32)
        stored = numpy_helper.from_array(value, f"{name}_negated" if spelling == 3 else name)
        if spelling == 2:
            self.nodes.append(helper.make_node("Constant", [], [name], value=stored))
        else:
            self.stored.append(stored)
        if spelling == 3:
            self.nodes.append(helper.make_node("Neg", [stored.name], [name]))
        self.numbers[name] = float(number)
        return name

    def noise(self, times):
        for _ in range(times):
            op = self.draw.choice([*FUNCTIONS, "Add", "Mul", "Sub", "Identity"])
            first, second = self.draw.choices(self.tensors[-6:], k=2)
            if self.draw.random() < 0.4:
                second = self.constant(self.draw.choice(CONSTANTS))
            self.add(op, *([first, second] if op in ARITHMETIC else [first]))

    def plant(self, tree, bound, written):
        if tree[0] in "vc":
            return self.passed(bound[tree[1]]) if tree[0] == "v" else self.constant(tree[1])
        if tree in written and self.draw.random() < 0.5:
            return written[tree]
        op, operands = tree[0], list(tree[1:])
        if op in ("Add", "Mul"):
            level, operands = operands, []
            while level:
                part = level.pop()
                if part[0] == op and self.draw.random() < 0.6:
                    level += part[1:]
                else:
                    operands.append(part)
            names = [self.plant(part, bound, written) for part in operands]
            self.draw.shuffle(names)
            while len(names) > 1:
                place = self.draw.randrange(len(names) - 1)
                names[place : place + 2] = [self.passed(self.add(op, *names[place : place + 2]))]
            made = names[0]
        elif op in ("Div", "Sub") and operands[1][0] == "c" and self.draw.random() < 0.5:
            number = 1 / operands[1][1] if op == "Div" else -operands[1][1]
            other = "Mul" if op == "Div" else "Add"
            made = self.add(other, self.plant(operands[0], bound, written), self.constant(number))
        else:
            made = self.add(op, *(self.plant(part, bound, written) for part in operands))
        written[tree] = self.passed(made)
        return written[tree]

    def passed(self, name):
        if self.draw.random() > 0.15:
            return name
        op = self.draw.choice(list(LOOKED_THROUGH))
        return self.add(op, name, **LOOKED_THROUGH[op])

    def model(self):
        stated = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("a", "b")]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in sorted(self.outputs)]
        graph = helper.make_graph(self.nodes, "g", stated, made, self.stored)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


def rounded(number):
    return float(f"{number:.5g}")


def total(parts):
    number, terms = 0.0, []
    for part in parts:
        number += part[1] if part[0] in ("number", "sum") else 0.0
        terms += part[2] if part[0] == "sum" else [] if part[0] == "number" else [part]
    if not terms or (len(terms) == 1 and not number):
        return terms[0] if terms else ("number", number)
    return ("sum", rounded(number), tuple(sorted(terms, key=repr)))


def product(parts):
    number, factors = 1.0, []
    for part, power in parts:
        number *= part[1] ** power if part[0] in ("number", "product") else 1.0
        inner = part[2] if part[0] == "product" else () if part[0] == "number" else ((part, 1),)
        factors += [(factor, own * power) for factor, own in inner]
    if not factors or (len(factors) == 1 and rounded(number) == 1 and factors[0][1] == 1):
        return factors[0][0] if factors else ("number", number)
    return ("product", rounded(number), tuple(sorted(factors, key=repr)))


def joined(op, parts):
    """The normal form of an op of normal forms: sums and products flat and in order, their numbers taken together."""
    if op in ("Add", "Sub"):
        return total([parts[0], parts[1] if op == "Add" else product([(parts[1], 1), (("number", -1.0), 1)])])
    if op in ("Mul", "Div"):
        return product([(parts[0], 1), (parts[1], 1 if op == "Mul" else -1)])
    return product([(parts[0], 1), (("number", -1.0), 1)]) if op == "Neg" else (op, parts[0])


def normal(tree):
    if tree[0] in "vc":
        return ("variable", tree[1]) if tree[0] == "v" else ("number", tree[1])
    return joined(tree[0], [normal(part) for part in tree[1:]])


class Brute:
    """Every match of a pattern in a model: each node, with each tensor for each variable."""

    def __init__(self, drawn):
        self.drawn, self.spelled = drawn, {}
        self.readers = {}
        for node in drawn.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node.name)

    def same(self, name):
        """What two tensors have in common that compute the same of the same: the order of two operands is free."""
        if name not in self.spelled:
            node = self.drawn.makers.get(name)
            if name in self.drawn.numbers or node is None:
                self.spelled[name] = (self.drawn.numbers.get(name, name),)
            elif node.op_type in LOOKED_THROUGH:
                self.spelled[name] = self.same(node.input[0])
            else:
                parts = [self.same(item) for item in node.input]
                is_free = node.op_type in ("Add", "Mul")
                self.spelled[name] = (node.op_type, *(sorted(parts, key=repr) if is_free else parts))
        return self.spelled[name]

    def form(self, name, bound, inside, is_root=False):
        if name in self.drawn.numbers:
            return ("number", self.drawn.numbers[name])
        if not is_root and self.same(name) in bound:
            return ("variable", bound[self.same(name)])
        node = self.drawn.makers.get(name)
        if node is None:
            return ("input", name)
        inside.add(node.name)
        parts = [self.form(item, bound, inside) for item in node.input]
        return parts[0] if node.op_type in LOOKED_THROUGH else joined(node.op_type, parts)

    def is_closed(self, root, inside):
        inner = [name for name, node in self.drawn.makers.items() if node.name in inside and name != root]
        return not self.drawn.outputs.intersection(inner) and all(
            inside.issuperset(self.readers.get(name, ())) for name in inner
        )

    def matches(self, tree):
        """(root, nodes) of each."""
        names, wanted = sorted(variables(tree)), normal(tree)
        held = {self.same(name): name for name in reversed(self.drawn.tensors)}
        for root, node in self.drawn.makers.items():
            if node.op_type in LOOKED_THROUGH:
                continue
            for chosen in itertools.permutations(held, len(names)):
                inside = set()
                is_it = self.form(root, dict(zip(chosen, names, strict=True)), inside, is_root=True) == wanted
                makers = [self.drawn.makers.get(held[one]) for one in chosen]
                is_outside = not any(maker is not None and maker.name in inside for maker in makers)
                if is_it and is_outside and self.is_closed(root, inside):
                    yield root, inside


def values(drawn, model):
    draw = np.random.default_rng(0)
    known = {"a": draw.uniform(0.3, 2, (3, 4)), "b": draw.uniform(-2, -0.3, (3, 4))}
    known.update((item.name, numpy_helper.to_array(item).astype(float)) for item in model.graph.initializer)
    for node in model.graph.node:
        parts = [known[name] for name in node.input]
        if node.op_type == "Constant":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).astype(float)
        elif node.op_type in LOOKED_THROUGH:
            known[node.output[0]] = parts[0]
        else:
            known[node.output[0]] = {**FUNCTIONS, **ARITHMETIC}[node.op_type](*parts)
    return known


def evaluated(tree, bound):
    if tree[0] in "vc":
        return bound[tree[1]] if tree[0] == "v" else tree[1]
    return {**FUNCTIONS, **ARITHMETIC}[tree[0]](*(evaluated(part, bound) for part in tree[1:]))


def is_worth_it(tree):
    """Whether it is large enough to be told from others and holds no sum or product of numbers that cancel out."""
    if not 2 <= count(tree) <= 6 or not variables(tree):
        return False
    parts, numbers = [tree], []
    while parts:
        part = parts.pop()
        numbers += [part[1]] if part[0] == "c" else []
        parts += [item for item in part[1:] if isinstance(item, tuple)]
    return len(numbers) < 2 and normal(tree)[0] not in ("variable", "number")


@pytest.mark.parametrize("seed", range(sampling.examples(300)))
def test_what_is_found_is_what_every_binding_tried_finds(seed):
    draw = random.Random(seed)
    tree = next(filter(is_worth_it, (draw_pattern(draw, 3) for _ in itertools.count())))
    drawn = Drawn(draw, tree)
    model = drawn.model()
    onnx.checker.check_model(model)
    made = surgeon.rule(patterns=[pattern_of(tree)], target="any", name="planted")
    rule = made(lambda g, x: g.op("acme::planted", x))
    with np.errstate(all="ignore"):
        brute, known, found = Brute(drawn), values(drawn, model), list(surgeon.find(model, rule))
        expected = list(brute.matches(tree))
        for match in found:
            (root,), nodes = match.outputs, {node.label for node in match.nodes}
            bound = {name: known[match.bound[name if name in match.bound else "x"]] for name in variables(tree)}
            assert np.allclose(known[root], evaluated(tree, bound), rtol=1e-4, atol=1e-6, equal_nan=True), tree
            assert brute.is_closed(root, nodes), (tree, root)
    taken = {node.label for match in found for node in match.nodes}
    missed = [root for root, inside in expected if not taken & inside]
    assert not missed, (tree, missed, onnx.printer.to_text(model.graph))


@pytest.mark.parametrize("body", ["b = Relu(a)  c = Tanh(x)", "b = Sigmoid(a)  c = Tanh(a)"])
def test_a_sigmoid_beside_a_sum_is_no_tanh_that_is_a_sigmoid_again(body):
    """A product is looked into by what its sigmoids and its sums with tanh are equal to, which ends."""

    def gated(g, x, y):
        return g.mul(g.sigmoid(g.tanh(y)), g.add(g.tanh(x), 2.0))

    rule = surgeon.rule(patterns=[gated], target="any", name="gated")(lambda g, x, y: g.op("acme::gated", x, y))
    text = """(float[3] x, float[3] y) => (float[3] o{}) <float two = {{2}}>
        {{ a = Tanh(y)  {}  d = Add(c, two)  o = Mul(b, d) }}"""
    assert not list(surgeon.find(parse(text.format(", float[3] d", body)), rule))
    found = list(surgeon.find(parse(text.format("", "b = Sigmoid(a)  c = Tanh(x)")), rule))
    assert [match.bound for match in found] == [{"x": "x", "y": "y"}]
