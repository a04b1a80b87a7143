"""The names of helpers: `MatMul` is `matmul`, `com.microsoft::Gelu` is `ms_gelu`, `And` is `and_`.

One general rule splits a CamelCase name into words; a short table has the words that the rule would split wrongly.  The
names are unique over all known operators.
"""

import keyword
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from onnx import defs

from surgeon.errors import RuleError
from surgeon.ops.schemas.op_schema import domains, normalize_domain, operators

PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "": "",
        "com.microsoft": "ms_",
        "ai.onnx.ml": "ml_",
        "ai.onnx.preview": "preview_",
        "ai.onnx.preview.training": "training_",
    }
)
"""The prefix of the helpers of a domain."""

# Public names of `gs.Graph` and `surgeon.Graph`, which operators of the same name must not hide.
RESERVED = frozenset(
    """
    DEFAULT_OPSET GLOBAL_FUNC_MAP OPSET_FUNC_MAP cleanup copy doc_string fold_constants functions import_domains inputs
    ir_version layer name name_idx node_ids nodes opset outputs producer_name producer_version register subgraphs
    tensors toposort
    any_number any_of any_tensor call called capture emit exposed helper_opset home literal made named op optional say
    shared such_that
    version versions
    """.split()  # noqa: SIM905 - a list literal would take a line per name
)

# Words that are one word to a reader in spite of their capitals.
_WORDS = {
    "MatMul": "Matmul",
    "IsNaN": "Isnan",
    "IsInf": "Isinf",
    "TfIdf": "Tfidf",
    "Col2Im": "Col2im",
    "SwiGLU": "Swiglu",
    "SiLU": "Silu",
    "MoE": "Moe",
    "FpQ4": "Fpq4",
    "_TRT": "Trt",
}
RESULT_NOUNS: Mapping[str, str] = MappingProxyType(
    {
        "Add": "total",
        "Sub": "difference",
        "Mul": "product",
        "Div": "quotient",
        "MatMul": "product",
        "Gemm": "linear",
        "Pow": "power",
        "Sqrt": "root",
        "Sigmoid": "gate",
        "Relu": "positive",
        "Cast": "wide",
        "Reshape": "reshaped",
        "Transpose": "turned",
        "Slice": "part",
        "Split": "part",
        "Concat": "joined",
    }
)
"""Names of variables for results of an op."""
_WORD = re.compile("|".join(map(re.escape, _WORDS)))

# A word starts at a capital after a small letter or digit, and at the last capital of an acronym of two letters or
# more (RMSNormalization).  A single capital belongs to the word after it (PRelu, QLinearConv, NGram).
_START_OF_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z][A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """A CamelCase name as a Python function name: `LayerNormalization` is `layer_normalization`."""
    return _START_OF_WORD.sub("_", _WORD.sub(lambda found: _WORDS[found.group()], name)).lower()


def helper_name(domain: str, op: str) -> str:
    """The name of the helper for an operator, e.g. `("com.microsoft", "MatMulNBits")` is `ms_matmul_nbits`.

    A Python keyword and a name that graphs already have get a trailing `_` (`and_`, `optional_`).  Other domains
    are their own prefix: `("my.domain", "Foo")` is `my_domain_foo`.
    """
    domain = normalize_domain(domain)
    prefix = PREFIXES.get(domain, re.sub(r"\W", "_", domain) + "_")
    name = prefix + snake_case(op)
    return name + "_" if keyword.iskeyword(name) or name in RESERVED else name


@cache
def all_helpers() -> Mapping[str, tuple[str, str]]:
    """Every helper's name with the domain and name of its operator, for all known operators."""
    return MappingProxyType({helper_name(domain, op): (domain, op) for domain in domains() for op in operators(domain)})


@cache
def domain_and_name(kind: object, outputs: object) -> tuple[str, str]:
    """The domain and name of an op in a call of `g.op`, such as "custom::deform_conv2d".

    Raises RuleError for a malformed name, and for fewer `outputs` than one.
    """
    domain, _, name = kind.rpartition("::") if isinstance(kind, str) else ("", "", "")
    if not name or ":" in name or any(part != part.strip() for part in (domain, name)):
        raise RuleError(f'{kind!r} is not the name of an op. Write domain and name, such as "custom::deform_conv2d".')
    if outputs is not None and (isinstance(outputs, bool) or not isinstance(outputs, int) or outputs < 1):
        raise RuleError(f"Invalid outputs={outputs!r} of {kind}. Give the number of outputs, at least 1.")
    return normalize_domain(domain), name


@cache
def operator_of(helper: str) -> tuple[str, str] | None:
    """The domain and name of the operator of a helper, or None if no operator has that helper."""
    likely = "".join(word.capitalize() for word in helper.split("_"))
    if defs.has(likely) and helper_name("", likely) == helper:  # listing all operators is slow
        return "", likely
    return all_helpers().get(helper)
