"""Traits that users declare of their own operators, and the strict default of all others."""

import re

import numpy as np
import pytest

import surgeon
from surgeon import UsageError, rule
from surgeon.ops.traits.trait_lookup import has_traits, traits_of
from surgeon.runtime.implementations.implementation import export_registry, import_registry, traits_of_files, unregister
from surgeon.testing import parse
from tests.command_line import run

pytestmark = pytest.mark.usefixtures("forget_implementations")


def rows(table, chosen):
    return table[chosen]


def pick(table, chosen):
    return np.take(table, chosen, axis=0)


def wrong_pick(table, chosen):
    return np.take(table, np.maximum(chosen, 0), axis=0)


def repeat(x, times):
    return np.tile(x, (int(times), 1))


def join(x, times):
    return np.concatenate([x] * int(times)) if times > 0 else x[:0]


def noise(x):
    return (x + np.random.default_rng().normal(size=x.shape)).astype(x.dtype)


def rewritten(old, new, signature, *, outputs="float[m, 4] y", **words):
    """The report of a rewrite of acme::Old to acme::New, which compute these; the words declare traits of both."""
    surgeon.implements("acme::Old", **words)(old)
    surgeon.implements("acme::New", **words)(new)
    names = re.findall(r"\] (\w)|64 (\w)", signature)
    names = [one or other for one, other in names]

    if len(names) == 1:

        def found(g, x):
            return g.op("acme::Old", x)

        def changed(g, x):
            return g.op("acme::New", x)
    else:

        def found(g, x, y):
            return g.op("acme::Old", x, y)

        def changed(g, x, y):
            return g.op("acme::New", x, y)

    model = parse(
        f'<ir_version: 9, opset_import: ["" : 17, "acme" : 1]> g ({signature}) => ({outputs}) '
        f"{{ y = acme.Old({', '.join(names)}) }}"
    )
    _, report = surgeon.rewrite(model, rule(patterns=[found], target="any")(changed), keep_going=True)
    return report


TABLE = "float[10, 4] t, int64[n] i"


def kinds(report):
    return report.sites[0].proof.kinds


def test_an_operator_without_declared_traits_is_reported_once():
    """With what to do; `random=False` says that there is nothing to declare."""
    report = rewritten(rows, pick, TABLE)
    (hint,) = report.next_steps
    assert hint.startswith("proofs treat any number as a valid input of acme::Old, acme::New. If")
    assert '@surgeon.implements("acme::Old", indices=(1,)), otherwise random=False' in hint
    assert not rewritten(rows, pick, TABLE, random=False).next_steps


def test_declared_indices_are_within_their_table():
    """Undeclared they may be any numbers, most of which no table has; declared they are indices, negative too."""
    plain, declared = (set(kinds(rewritten(rows, pick, TABLE, **words))) for words in ({}, {"indices": (1,)}))
    assert "indices" in declared - plain
    assert rewritten(rows, wrong_pick, TABLE, indices=(1,)).outcome == "failed"


def test_declared_counts_are_small():
    plain = rewritten(repeat, join, "float[10, 4] x, int64 n")
    declared = rewritten(repeat, join, "float[10, 4] x, int64 n", counts=(1,))
    assert "counts" in set(kinds(declared)).difference(kinds(plain))
    assert declared.sites[0].proof.runs > plain.sites[0].proof.runs, "most numbers are not counts"


def test_a_random_operator_is_named():
    """Two runs of it differ; declared, it is named as the cause."""
    reason = rewritten(noise, rows, "float[n, 4] x").sites[0].reason
    assert reason == "the original nodes are not deterministic: 'y' differs between two runs"
    assert "(Old 'y' is random)" in rewritten(noise, rows, "float[n, 4] x", random=True).sites[0].reason


@pytest.mark.parametrize(
    ("words", "outcome"), [({}, "failed"), ({"like": "Gelu"}, "proved"), ({"like": "Abs"}, "failed")]
)
def test_an_error_is_allowed_only_where_it_is_declared(words, outcome):
    """Kernels of Gelu err by 4e-6 however small the result; another operator by a part of the result."""

    def exact(x):
        return (1e-3 * np.tanh(x)).astype(x.dtype)

    def rough(x):
        return (1e-3 * np.tanh(x) + 1e-6 * np.minimum(abs(x), 1)).astype(x.dtype)

    assert rewritten(exact, rough, "float[n, 4] x", **words).outcome == outcome


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"like": "GridSampl"}, "Unknown operator like='GridSampl' of acme::Rows; did you mean 'Grid"),
        ({"like": "com.microsoft::QuikGelu"}, "did you mean 'com.microsoft::QuickGelu'"),
        ({"like": "acme::Rows"}, "Unknown operator like="),
        ({"like": "Where"}, "like='Where', which needs 3 inputs, but its function accepts 2."),
        ({"indices": (2,)}, r"declared with indices=\(2,\), but has no input 2; the last input is 1, 'chosen'."),
        ({"counts": (-1,)}, r"counts=\(-1,\) of acme::Rows. Write positions of inputs, for example counts=\(1,\)."),
        ({"indices": 1}, r"indices=1 of acme::Rows. Write positions of inputs, for example indices=\(1,\)."),
        ({"indices": (True,)}, "Write positions of inputs"),
        ({"random": "yes"}, "random='yes' of acme::Rows. Write random=True or random=False."),
    ],
)
def test_what_cannot_be_declared_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        surgeon.implements("acme::Rows", **words)(rows)
    assert traits_of("acme::Rows") == traits_of("acme::Nothing")


def test_a_function_of_any_number_of_inputs_has_any_position():
    surgeon.implements("acme::Rows", indices=(7,))(lambda *inputs: inputs[0])
    assert traits_of("acme::Rows").indexing.lookups[0].indices == 7


def test_like_shares_all_traits_but_the_declared_ones():
    """Positions that the other operator has keep their table; an op may be like one of the user's own."""
    surgeon.implements("acme::Rows", like="Gather", random=True)(rows)
    assert traits_of("acme::Rows") == traits_of("Gather")._replace(name="acme::Rows").having(random="always")
    surgeon.implements("acme::Pick", like="acme::Rows", indices=(1,), random=False)(rows)
    assert traits_of("acme::Pick") == traits_of("Gather")._replace(name="acme::Pick")
    assert traits_of("ai.onnx::Gather") != traits_of("Gather")
    surgeon.implements("acme::Same", like="ai.onnx::Gather")(rows)
    assert traits_of("acme::Same").indexing == traits_of("Gather").indexing


def test_the_table_of_an_index_is_the_first_other_input():
    surgeon.implements("acme::Embed", indices=(0,))(lambda ids, table: table[ids])
    assert traits_of("acme::Embed").indexing.lookups[0].table == 1
    eye = np.eye(4, dtype=np.float32)
    signature = "int64[m] i"
    assert "indices" not in kinds(rewritten(lambda ids: eye[ids], lambda ids: pick(eye, ids), signature))
    assert "indices" in kinds(rewritten(lambda ids: eye[ids], lambda ids: pick(eye, ids), signature, indices=(0,)))


def test_a_later_registration_replaces_what_was_declared(tmp_path):
    """Also one that declares nothing, and a file that is named again."""
    surgeon.implements("acme::Rows", like="Gather")(rows)
    surgeon.implements("acme::Rows")(rows)
    assert not traits_of("acme::Rows").indexing.lookups
    file = tmp_path / "ops.py"
    file.write_text(
        'import surgeon\n\n@surgeon.implements("acme::Rows", like="Gather")\ndef rows(t, i):\n    return t[i]\n'
    )
    with traits_of_files([file]):
        assert traits_of("acme::Rows").indexing.lookups
        unregister("acme::Rows")
        assert not traits_of("acme::Rows").indexing.lookups
    with traits_of_files([file]):
        assert traits_of("acme::Rows").indexing.lookups


def test_what_a_file_declares_holds_for_its_run(tmp_path):
    """Also if the run fails; what the user's code declares meanwhile stays."""
    file = tmp_path / "ops.py"
    file.write_text('import surgeon\n\n@surgeon.implements("acme::Twice", random=False)\ndef f(x):\n    return x + x\n')
    head = '<ir_version: 9, opset_import: ["" : 17, "acme" : 1]>'
    model = parse(f"{head} g (float[n] x) => (float[n] y) {{ y = acme.Twice(x) }}")

    def found(g, x):
        return g.op("acme::Twice", x)

    @surgeon.rule(patterns=[found], target="any")
    def doubled(g, x):
        return g.add(x, x)

    options = surgeon.CheckOptions(custom_ops=[file])
    _, report = surgeon.rewrite(model, doubled, options=options)
    assert report.outcome == "proved"
    assert not any("treat any number" in step for step in report.next_steps)
    assert surgeon.compare(model, model, custom_ops=[file]).proved
    with pytest.raises(surgeon.ExpectationUnmet):
        surgeon.rewrite(model, doubled, options=options, expect={"doubled": 2})
    assert not has_traits("acme::Twice")
    surgeon.implements("acme::Twice", like="Neg")(lambda x: x + x)
    with traits_of_files([file]):
        assert traits_of("acme::Twice").name == "acme::Twice"
        assert traits_of("acme::Twice") != traits_of("Neg")._replace(name="acme::Twice")
        surgeon.implements("acme::Rows", like="Gather")(rows)
    assert traits_of("acme::Twice") == traits_of("Neg")._replace(name="acme::Twice")
    assert traits_of("acme::Rows").indexing.lookups


def test_a_node_of_fewer_inputs_than_the_operator_it_is_like_is_refused():
    """Where the function does not say how many it takes: in the model, and in what a rule writes."""
    surgeon.implements("acme::Most", like="Less")(lambda *inputs: inputs[0] * 2)
    text = '<ir_version: 9, opset_import: ["" : 17, "acme" : 1]> g (float[n] x) => (float[n] y) {{ y = {} }}'

    def found(g, x):
        return g.relu(x)

    @surgeon.rule(patterns=[found], target="any")
    def written(g, x):
        return g.op("acme::Most", x)

    for call in ("acme.Most(x)", "Relu(x)"):
        with pytest.raises(UsageError, match=r"acme::Most is declared like='Less', which needs 2 inputs, but node"):
            surgeon.rewrite(parse(text.format(call)), written)


def test_another_process_gets_what_is_declared():
    surgeon.implements("acme::Rows", like="Gather")(rows)
    sent = export_registry()
    surgeon.implements("acme::Rows")(rows)
    surgeon.implements("acme::Other", like="Gather")(rows)
    import_registry(sent)
    assert traits_of("acme::Rows").indexing.lookups
    assert not traits_of("acme::Other").indexing.lookups


def test_the_command_line_prints_the_hint(tmp_path):
    """Of operators that the file implements, once for all sites."""
    (tmp_path / "ops.py").write_text(
        'import surgeon\n\n@surgeon.implements("acme::Twice")\ndef twice(x):\n    return x + x\n'
    )
    (tmp_path / "rules.py").write_text(
        "from surgeon import rule\n\n\ndef found(g, x):\n    return g.op('acme::Twice', x)\n\n\n"
        "@rule(patterns=[found], target='any')\ndef changed(g, x):\n    return g.add(x, x)\n"
    )
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "acme" : 1]> g (float[n] x) => (float[n] y) '
        "{ a = acme.Twice(x)  b = Relu(a)  y = acme.Twice(b) }"
    )
    source = tmp_path / "in.onnx"
    source.write_bytes(model.SerializeToString())
    named = [f"--rules={tmp_path / 'rules.py'}", f"--custom-ops={tmp_path / 'ops.py'}"]
    done = run("rewrite", str(source), str(tmp_path / "out.onnx"), *named)
    assert done.exit_code == 0, done.output
    assert " ".join(done.output.split()).count("proofs treat any number as a valid input of acme::Twice") == 1
