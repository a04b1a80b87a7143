"""Messages that print a command: what makes surgeon print each, and what the command does then."""

from tests.printed_cli_cases import CLI_CASES
from tests.printed_command_models import (
    ATTENTION,
    BAKED,
    CHECK,
    DOUBLED,
    FINISHED,
    FIXED_DETECTOR,
    FREE_DETECTOR,
    FUNCTION,
    HARD_SWISH,
    NO_DOUBLE,
    NO_KERNEL,
    PLACEHOLDER,
    RELU,
    REWRITE,
    SIZED_IF,
    TOO_NEW,
    TRT,
    UNTOLD_DETECTOR,
    at,
)
from tests.printed_commands import Case

CASES = [
    Case(
        "surgeon.diagnostics.baked_in_sizes.check_dynamic_dims",
        BAKED,
        CHECK,
        "surgeon edit IN OUT --free 'x[0]=batch'",
    ),
    Case(
        "surgeon.pipeline.rewriting.rule_run._require_outputs",
        at(17, "(float[2, 4] x) => () { a = Relu(x) d = Neg(a) }"),
        "rewrite IN OUT --rules cleanup",
        "surgeon edit IN OUT --add-output d",
    ),
    Case(
        "surgeon.pipeline.acceptance.match_acceptance._require_opset",
        at(9, "(float[2, 4] x) => (float[s, 4] y) <int64[1] a = {0}, int64[1] b = {1}> { y = Slice(x, a, b) }"),
        "rewrite IN OUT --rules no_op_slice",
        "surgeon check IN",
        says="raise the opset",
    ),
    *(
        Case(
            "surgeon.targets.lint.dtype_conflicts._tell",
            at(17, f"({flowing}[n, 4] x) => ({flowing}[n, 4] y) <{stored}[4] c = {{1, 2, 3, 4}}> {{ {body} }}"),
            CHECK,
            f"surgeon convert IN OUT --from {other} --to {wanted}",
        )
        for flowing, stored, other, wanted, body in (
            ("float", "float16", "float16", "float32", "r = Relu(x) y = Add(r, c)"),
            ("float16", "float", "float32", "float16", "y = Mul(c, x)"),
            ("float", "double", "float64", "float32", "a = Sub(x, c) y = Div(a, c)"),
            ("float16", "float", "float32", "float16", "y = LayerNormalization(x, c)"),
            ("float", "float16", "float16", "float32", "k = Constant<value = float16[4] {1, 2, 3, 4}>() y = Mul(x, k)"),
        )
    ),
    *(
        Case(
            "surgeon.rules.searches.constant_folding._left",
            at(17, f"(float[n, 4] x) => (float[n, 4] y) <float[4] c = {{1, 2, 3, 4}}> {{ {body} y = Relu(x) }}"),
            "rewrite IN OUT --rules constant_folding",
            "surgeon rewrite IN OUT --rules dead_nodes",
        )
        for body in ("a = Exp(c)", "a = Add(c, c) b = Exp(a)", "a = Exp(c) p, q = Split(a) s = Neg(q)")
    ),
    *(
        Case(
            "surgeon.pipeline.acceptance.kernel_support.ops_left",
            at(20, f"(float[n, 3, 4] x, float[4, 14] w) => (float[n, 3, k] y) {{ {body} }}", com_microsoft=1),
            f"rewrite IN OUT --rules onnx --target {target}",
            f"surgeon check OUT --target {checked}",
            fill={"OUT": "@/first.onnx"},
            says=f"stops    com.microsoft::{op} (",
        )
        for target, checked, op, body in (
            ("onnx", "onnx", "Attention", ATTENTION),
            ("decomposed", "onnx", "Attention", ATTENTION),
            ("tensorrt", "tensorrt", "Inverse", "a = com.microsoft.Inverse(x) y = MatMul(a, w)"),
        )
    ),
    Case(
        "surgeon.edits.dynamic_dims.make_dynamic._declared",
        BAKED,
        "edit IN OUT --free 0=n",
        "surgeon edit IN OUT --free 0=batch",
        says="the graph still contained 2",
    ),
    Case(
        "surgeon.edits.detection.head_columns.require_raw",
        at(17, FINISHED),
        "append IN OUT nms",
        "surgeon append IN OUT nms --output boxes --scores scores",
        says="are the detections of 'boxes' and 'scores'",
    ),
    Case(
        "surgeon.diagnostics.rule_suggestions._command",
        at(
            17,
            "(float[1, 32, 1] x) => (float[1, 3, 9, 2] y) <int64 step = {8}, float[16] window = "
            "{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> { y = STFT<onesided = 1>(x, step, window) }",
        ),
        "check IN --ep cuda",
        "surgeon rewrite IN OUT --rules stft --ep cuda",
    ),
    Case(
        "surgeon.diagnostics.rule_suggestions._command",
        at(20, "(float[2, 4] x) => (float[2, 4] y) { y = com.microsoft.Gelu(x) }", com_microsoft=1),
        "check IN --target onnx",
        "surgeon rewrite IN OUT --rules gelu --target onnx",
    ),
    Case(
        "surgeon.diagnostics.rule_suggestions._command",
        at(
            19,
            "(float[1, 2, 5, 5] x, float[3, 2, 3, 3] w, float[1, 18, 3, 3] o) => (float[1, 3, 3, 3] y) "
            "{ y = custom.deform_conv2d<stride_h = 1>(x, w, o) }",
            custom=1,
        ),
        CHECK,
        "surgeon explain IN --rules deform_conv",
        says="the node lacks mask, bias, stride_w",
    ),
    Case(
        "surgeon.diagnostics.rule_suggestions._hint",
        at(
            17,
            "(float[2, 4, 8, 7] x, float[6, 2, 3, 2] w, float[2, 24, 4, 9] o, float[2, 12, 4, 9] m, float[6] b) => "
            "(float[2, 6, 4, 9] y) { y = mmcv.MMCVModulatedDeformConv2d<stride = [2, 1], padding = [1, 2], "
            "dilation = [1, 2], groups = 2, deform_groups = 2>(x, o, m, w, b) }",
            mmcv=1,
        ),
        CHECK,
        "surgeon upgrade IN OUT --opset 19",
        then="rule deform_conv fires",
    ),
    Case(
        "surgeon.diagnostics.rule_combinations.command",
        at(
            13,
            "(float[2, 4] x) => (float y) <int64[1] one = {1}> "
            "{ s = Shape(x) n = Size(s) k = Sub(n, one) y = ReduceSum<keepdims = 0>(x, k) }",
        ),
        TRT,
        "surgeon rewrite IN OUT --rules constant_folding --target tensorrt",
    ),
    Case(
        "surgeon.diagnostics.rule_combinations._input_fixing_command",
        at(13, "(float[2, 4] x, int64[1] axes) => (float[n, m] y) { y = ReduceSum(x, axes) }"),
        TRT,
        "surgeon edit IN OUT --hold axes=VALUE",
        {"VALUE": "1"},
    ),
    Case(
        "surgeon.targets.op_support._no_mapping",
        PLACEHOLDER,
        CHECK,
        "surgeon rewrite IN OUT --rules FILE.py",
        {"FILE": "rules"},
        files={"rules.py": DOUBLED},
    ),
    Case(
        "surgeon.targets.op_support._check_kernel",
        at(17, "(double[1, 2, 4, 4] x, double[2, 2, 1, 1] w) => (double[1, 2, 4, 4] y) { y = Conv(x, w) }"),
        CHECK,
        "surgeon convert IN OUT --from float64 --to float32",
    ),
    Case(
        "surgeon.targets.op_support.raise_opset",
        at(13, "(int32[2, 4] x) => (int32[2, 4] y) { y = Relu(x) }"),
        CHECK,
        "surgeon upgrade IN OUT --opset 14",
    ),
    Case(
        "surgeon.diagnostics.target_check._add_declared",
        at(18, "(float[2, 4] x, float[4] w) => (float[2, 4] y) { g = Gelu(x) y = RMSNormalization(g, w) }"),
        CHECK,
        "surgeon upgrade IN OUT --opset 23",
    ),
    Case(
        "surgeon.targets.tensorrt.documented_support._of_placeholder",
        PLACEHOLDER,
        TRT,
        "surgeon rewrite IN OUT --rules FILE.py --target tensorrt",
        {"FILE": "rules"},
        files={"rules.py": DOUBLED},
    ),
    Case(
        "surgeon.targets.tensorrt.documented_support._of_placeholder",
        PLACEHOLDER,
        f"{TRT} --custom-ops plugins.toml",
        "surgeon rewrite IN OUT --target tensorrt --plugin mylib::twice=PLUGIN",
        {"PLUGIN": "TwicePlugin"},
        files={"plugins.toml": '[TwicePlugin]\ninputs = { x = "float32" }\noutputs = { y = "x" }\n'},
    ),
    Case(
        "surgeon.targets.tensorrt.documented_support.DECLARED",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { y = trt.plugins.ThricePlugin(x) }", trt_plugins=1),
        TRT,
        "surgeon check IN --target tensorrt --custom-ops plugins.toml",
        says="no problems found for TensorRT",
        files={"plugins.toml": '[ThricePlugin]\ninputs = { x = "float32" }\noutputs = { y = "x" }\n'},
    ),
    Case(
        "surgeon.targets.tensorrt.documented_support.ORIGINAL",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { y = com.microsoft.QuickGelu(x) }", com_microsoft=1),
        TRT,
        "surgeon rewrite ORIGINAL OUT --rules tensorrt --target tensorrt",
        original=at(17, "(float[2, 4] x) => (float[2, 4] y) { s = Sigmoid(x) y = Mul(x, s) }"),
    ),
    Case(
        "surgeon.targets.tensorrt.documented_support.LOWERED",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { y = com.microsoft.QuickGelu(x) }", com_microsoft=1),
        TRT,
        "surgeon rewrite IN OUT --target tensorrt",
    ),
    Case(
        "surgeon.targets.tensorrt.parser_limits._recurrent",
        at(
            17,
            "(float16[5, 2, 3] x, float16[1, 12, 3] w, float16[1, 12, 4] r, int32[2] n) => (float16[5, 1, 2, 4] y) "
            "{ y = GRU<hidden_size = 4>(x, w, r, , n) }",
        ),
        TRT,
        "surgeon convert ORIGINAL OUT --ep tensorrt",
        original=at(
            17,
            "(float[5, 2, 3] x, float[1, 12, 3] w, float[1, 12, 4] r, int32[2] n) => (float[5, 1, 2, 4] y) "
            "{ y = GRU<hidden_size = 4>(x, w, r, , n) }",
        ),
    ),
    Case(
        "surgeon.targets.tensorrt.mixed_precision.HALF",
        at(17, "(float16[1, 3000] x) => (float16[1, 3000] y) { y = Softmax(x) }"),
        TRT,
        "surgeon convert ORIGINAL OUT --ep tensorrt",
        original=at(17, "(float[1, 3000] x) => (float[1, 3000] y) { y = Softmax(x) }"),
    ),
    Case(
        "surgeon.targets.tensorrt.size_advice.fix_of",
        SIZED_IF,
        TRT,
        "surgeon edit IN OUT --dim n=N",
        {"N": "3"},
    ),
    Case(
        "surgeon.targets.tensorrt.size_advice.fix_of",
        SIZED_IF,
        "rewrite IN OUT --rules constant_if --target tensorrt",
        "surgeon edit IN OUT --dim n=N",
        {"N": "3"},
    ),
    Case(
        "surgeon.display.content.near_misses.upgrade_hint",
        HARD_SWISH,
        "rewrite IN OUT --rules hard_swish",
        "surgeon upgrade IN OUT --opset 14",
    ),
    Case(
        "surgeon.display.content.near_misses.newer_ops_warning",
        at(
            14,
            "(float[2, 4] x) => (float[2, 4] y) <float two = {2}, float eps = {0.00001}> "
            "{ m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p) "
            "e = Add(v, eps) s = Sqrt(e) y = Div(d, s) }",
        ),
        "rewrite IN OUT --rules layer_norm",
        "surgeon upgrade IN OUT --opset 17",
    ),
    Case(
        "surgeon.display.content.near_misses.why_command",
        HARD_SWISH,
        "rewrite IN OUT --rules ort --target onnx",
        "surgeon explain IN --rules ort --target onnx",
        says="hard_swish",
    ),
    Case(
        "surgeon.display.content.near_misses._warnings",
        at(17, "(float[4] x) => (float[4] y) { r = Relu(x) a = Relu(r) y = nobody.knows(a) }", nobody=1),
        "rewrite IN OUT --rules cleanup",
        "surgeon check @/in.onnx",
        says="replace it with a rule",
    ),
    Case(
        "surgeon.pipeline.acceptance.match_acceptance._opset_too_old",
        HARD_SWISH,
        "explain IN --rules hard_swish",
        "surgeon upgrade IN OUT --opset 14",
    ),
    Case(
        "surgeon.pipeline.acceptance.match_acceptance._decide",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { a = Neg(x) y = Neg(a) }"),
        f"{REWRITE} --check none",
        "surgeon upgrade IN OUT --opset 20",
        files={"rules.py": TOO_NEW},
    ),
    Case(
        "surgeon.pipeline.acceptance.match_acceptance._no_kernel",
        at(17, "(double[2, 4] x) => (double[2, 4] y) { a = Neg(x) y = Neg(a) }"),
        f"{REWRITE} --check none",
        "surgeon upgrade IN OUT --opset 18",
        files={"rules.py": NO_KERNEL},
    ),
    Case(
        "surgeon.pipeline.rewriting.aliased_edit._naming_options",
        at(17, UNTOLD_DETECTOR),
        "rewrite IN OUT --rules nms",
        "surgeon append IN OUT nms",
        more="--activation sigmoid --form xyxy",
        says="PROVED",
    ),
    Case(
        "surgeon.runtime.provider_support.missing_reason",
        at(17, "(double[2, 4] x, double[4, 4] w) => (double[2, 4] y) { b = MatMul(x, w) a = Neg(b) y = Neg(a) }"),
        f"{REWRITE} --check none",
        "surgeon convert IN OUT --from float64 --to float32",
        files={"rules.py": NO_DOUBLE},
    ),
    Case(
        "surgeon.rules.functions.function_body._too_new",
        PLACEHOLDER.replace("17", "14"),
        f"{REWRITE} --check none",
        "surgeon upgrade IN OUT --opset 15",
        files={"rules.py": FUNCTION.replace("BODY", "g.mul(x, 2.0)")},
    ),
    Case(
        "surgeon.rules.catalogue.resolve",
        RELU,
        "explain IN --rules ,",
        "surgeon rules",
        says="bias_gelu",
    ),
    Case(
        "surgeon.rules.catalogue._unknown",
        RELU,
        "explain IN --rules qqqqqqqqqqqq",
        "surgeon rules",
        says="bias_gelu",
    ),
    Case(
        "surgeon.rules.edit_aliases.is_edit_message",
        at(17, FIXED_DETECTOR),
        "explain IN --rules nms",
        "surgeon rewrite IN OUT --rules nms",
        says="PROVED",
    ),
    Case(
        "surgeon.rules.edit_aliases.is_edit_message",
        at(17, FIXED_DETECTOR),
        "explain IN --rules nms",
        "surgeon append IN OUT nms",
        says="PROVED",
    ),
    Case(
        "surgeon.authoring.rule_proof.prover._why_nothing",
        at(17, "(float[2] x) => (float[2] y) <float[2] a = {1, 2}> { b = Neg(a) y = Add(x, b) }"),
        "rules constant_folding --prove",
        "surgeon rewrite IN OUT --rules constant_folding",
        says="PROVED   1 of 1",
    ),
    Case(
        "surgeon.precision.planning.node_dtypes._untaken",
        at(12, "(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"),
        "convert IN OUT --to bfloat16",
        "surgeon upgrade IN OUT --opset 13",
    ),
    Case(
        "surgeon.precision.conversion._require_valid",
        at(17, "(float16[2, 4] x, double[2, 4] z) => (float16[2, 4] y) { y = Add(x, z) }"),
        "convert IN OUT",
        "surgeon check IN",
        says="ai.onnx::Add",
    ),
    Case(
        "surgeon.precision.kept_nodes.selectors._near",
        RELU,
        "convert IN OUT --keep rule:gelu",
        "surgeon explain IN --rules gelu",
        says="the model has no Erf",
    ),
    Case(
        "surgeon.diagnostics.explanation._nodes_named",
        RELU,
        "explain IN --rules gelu --node nothing",
        "surgeon view IN",
        says="is at http://",
    ),
    Case(
        "surgeon.targets.lint.graph_structure._statement",
        at(17, "(float[2, n] x) => (float[] y, float[] z) { y = Relu(x) z = Neg(x) }"),
        "check IN --target onnx",
        "surgeon edit IN OUT --state 'y=float32[2,n]' --state 'z=float32[2,n]'",
    ),
    Case(
        "surgeon.targets.lint.graph_structure._statement",
        at(17, "(float[2, n] x) => (float[] y) { y = nobody.knows(x) }", nobody=1),
        f"{CHECK} --no-load --target onnx",
        "surgeon edit IN OUT --state 'y=float32[SIZE,...]'",
        {"SIZE,...": "2,n"},
        then="nobody::knows",
    ),
    Case(
        "surgeon.pipeline.editing.node_insertion.require_casts",
        at(12, "(float[2, 4] x) => (float[2, 4] y) { y = Identity(x) }"),
        "edit IN OUT --retype x=bfloat16:cast",
        "surgeon upgrade IN OUT --opset 13",
    ),
    Case(
        "surgeon.pipeline.editing.draft.require_tensor",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { a = Relu(x) b = Neg(a) y = Neg(b) }"),
        "edit IN OUT --rename nothing=q",
        "surgeon view IN",
        says="is at http://",
    ),
    Case(
        "surgeon.pipeline.editing.draft.unknown_type_error",
        PLACEHOLDER,
        "extract IN OUT --from x --to p",
        "surgeon edit IN OUT --state 'p=DTYPE[SIZE,...]'",
        {"DTYPE": "float", "SIZE,...": "2,4"},
    ),
    Case(
        "surgeon.edits.detection.nms_free._nodes",
        at(11, FIXED_DETECTOR),
        "append IN OUT best-boxes --form xyxy",
        "surgeon upgrade IN OUT --opset 12",
    ),
    Case(
        "surgeon.edits.detection.nms_free._sizes",
        at(17, FREE_DETECTOR),
        "append IN OUT best-boxes --form xyxy",
        "surgeon edit IN OUT --dim n=N",
        {"N": "3"},
    ),
    Case(
        "surgeon.edits.append.build",
        at(11, "(float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"),
        "append IN OUT softmax --axis 0",
        "surgeon upgrade IN OUT --opset 13",
    ),
    Case(
        "surgeon.edits.merge_split.join_graphs.meet",
        RELU,
        "merge in.onnx original.onnx OUT --connect y=a",
        "surgeon edit IN OUT --retype a=float32:cast",
        {"IN": "@/original.onnx"},
        says="PROVED",
        original=at(17, "(int64[2, 4] a) => (int64[2, 4] b) { b = Neg(a) }"),
    ),
    Case(
        "surgeon.edits.model_io.set_input._values",
        at(17, "(float[n, 4] x, float[4] b) => (float[n, 4] y) { y = Add(x, b) }"),
        "edit IN OUT --hold x=1",
        "surgeon edit IN OUT --dim n=N",
        {"N": "3"},
    ),
    Case(
        "surgeon.edits.prepend.apply",
        at(10, "(float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) { y = Relu(x) }"),
        "prepend IN OUT image --resize 8",
        "surgeon upgrade IN OUT --opset 18",
    ),
    Case(
        "surgeon.targets.lint.graph_structure.check_structure",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { y = Relu(a) a = Neg(x) }"),
        CHECK,
        "surgeon edit IN OUT --sort-nodes",
    ),
    Case(
        "surgeon.edits.insert.UNTOLD",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { a = Neg(x) y = Relu(a) }"),
        "insert IN OUT --between a --and a --op Tanh",
        "surgeon compare IN OUT",
        {"OUT": "@/first.onnx"},
        says="FAILED",
    ),
    Case(
        "surgeon.edits.strip_qdq.UNTOLD",
        at(
            17,
            "(float[2, 4] x) => (float[2, 4] y) <float s = {0.5}, int8 z = {0}> "
            "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
        ),
        "edit IN OUT --strip-qdq",
        "surgeon compare IN OUT",
        {"OUT": "@/first.onnx"},
        says="FAILED",
    ),
    Case(
        "surgeon.edits.bound_sizes.BEYOND",
        at(17, "(float[4, 60] x, int64[1] k) => (float[4, m] y) { y, places = TopK(x, k) }"),
        "edit IN OUT --bound-sizes 1",
        "surgeon compare IN OUT",
        {"OUT": "@/first.onnx"},
        says="FAILED",
    ),
    Case(
        "surgeon.edits.bound_sizes.apply",
        at(11, "(float[4, 60] x, int64[1] k) => (float[4, m] y) { y, places = TopK(x, k) }"),
        "edit IN OUT --bound-sizes 300",
        "surgeon upgrade IN OUT --opset 12",
    ),
    Case(
        "surgeon.edits.decoders.last_logits.apply",
        at(
            14,
            "(int64[b, s] ids, float[b, 1, p, 8] pk, float[b, 1, p, 8] pv) "
            "=> (float[b, s, 13] y, float[b, 1, t, 8] nk, float[b, 1, t, 8] nv) "
            "<int64[2] z = {13, 8}, int64[2] w = {8, 13}, int64[1] i = {1}> "
            "{ e = ConstantOfShape(z) x = Gather(e, ids) k = Unsqueeze(x, i) nk = Concat<axis = 2>(pk, k) "
            "nv = Concat<axis = 2>(pv, k) c = Transpose<perm = [0, 1, 3, 2]>(nk) a = MatMul(k, c) d = Softmax(a) "
            "f = MatMul(d, nv) o = Squeeze(f, i) h = ConstantOfShape(w) y = MatMul(o, h) }",
        ),
        "edit IN OUT --last-logits",
        "surgeon upgrade IN OUT --opset 15",
    ),
    Case(
        "surgeon.edits.dynamic_dims.op_constraints._require_input",
        at(9, "(float[4, 6] x) => (float[4, 6] y) { s = Slice<axes = [0], starts = [0], ends = [4]>(x) y = Relu(s) }"),
        "edit IN OUT --free 0=batch",
        "surgeon upgrade IN OUT --opset 10",
    ),
    Case(
        "surgeon.edits.dynamic_dims.propagation.plan_input",
        at(18, "(float[4, 6] x) => (float[4, 6] y) { a = m.f(x) y = Relu(a) }", m=1)
        + '<domain: "m", opset_import: ["" : 18]> f (x) => (y) '
        "{ s = Constant<value = int64[2] {4, 6}>() y = Reshape(x, s) }",
        "edit IN OUT --free 0=batch",
        "surgeon rewrite IN OUT --inline m::f",
    ),
    Case(
        "surgeon.ir.function_table.require_free",
        at(18, "(float[4] x) => (float[4] y) { a = mylib.f(x) y = other.twice(a) }", mylib=1, other=1)
        + '<domain: "mylib", opset_import: ["" : 18]> f (x) => (y) { y = Relu(x) }',
        f"{REWRITE} --check none",
        "surgeon rewrite IN OUT --inline mylib::f",
        files={
            "rules.py": f"{FUNCTION}\n\n@rule(patterns=[lambda g, x: g.op('other::twice', x)])\n"
            "def sums(g, x):\n    return twice(g, x)\n".replace("BODY", "g.add(x, x)")
            .replace("mylib::twice", "mylib::f")
            .replace("import Graph, Tensor, function", "import Graph, Tensor, function, rule")
        },
    ),
    *CLI_CASES,
]
