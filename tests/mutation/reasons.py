"""Why a mutant that survives may be the same: what is known of ops, beside that no difference was found."""

from __future__ import annotations

from tests.mutation.measuring import Result

ATTRIBUTES = {
    "softmax_precision": "the CPU's kernel computes the softmax in the dtype that it has in any case",
    "qk_matmul_output_mode": "it is about an output that is not asked for",
    "past_present_share_buffer": "it is about buffers, not about numbers",
    "mask_filter_value": "the node has no mask",
    "momentum": "it is about training alone",
    "stash_type": "the kernel keeps what it has in float32 in any case",
    "num_heads": "the shape of the input, or the default, says as much",
    "kv_num_heads": "the shape of the input says as much",
    "q_num_heads": "the shape of the input says as much",
    "rotary_embedding_dim": "it is all of the head in any case, or no rotation is asked for",
    "scale": "ONNX Runtime's kernel does not read it",
    "allowzero": "no size asked for is 0",
    "auto_pad": "nothing is padded",
    "epsilon": "it is below what rounding leaves of the numbers",
    "axis": "it is the same axis, counted from the other end",
    "axes": "the same axes in another order",
    "noop_with_empty_axes": "axes are given",
    "is_packed_batching": "nothing is packed",
    "do_rotary": "there are no tables to rotate by",
    "qk_norm_epsilon": "nothing is normalised",
    "smooth_softmax": "the kernel takes any number but 1 for no",
    "sliding_window_cache": "there is no window",
    "keepdims": "what reads it takes one element in either shape",
    "end": "a Slice behind it takes less",
    "detect_negative": "the sign is lost in any case",
}
"""By attribute, why a kernel may give the same numbers for another value."""
KINDS = {
    "size": "no set of inputs makes a result of that size: it is fixed there, or a sum with an empty past",
    "columns": "there are never so many columns",
    "magnitude": "no result there is of that magnitude, whatever magnitude the inputs are of",
    "digits": "all values there are held exactly",
    "special": "no such value comes out, or the rule differs for such inputs",
    "cast": "what is cast is held exactly, or of no size that it matters",
    "constant": "the number reaches beyond the end, or is divided out, either way",
    "left out": "the default says the same",
    "doubled": "the op done twice is the op done once",
    "element": "the element is zero, or replaced behind it",
    "operands": "both are equal there",
    "op": "both ops are equal for what comes there",
    "dropped": "nothing is left for it to do there",
    "sign": "nothing there is negative",
    "tensor": "both tensors are equal there",
    "attribute": "the kernel gives the same for both values",
    "shifted": "the shift is divided out",
}
"""By kind of change, why it leaves every bit of the result as it is."""


DECLARED, ROUNDED = ("within", "it differs for extreme"), "the same but for rounding"
"""How reasons begin that say all: a tolerance that is declared, and one of the dtype."""


def why(one: Result) -> str:
    """What is known of a survivor in which no difference was found, and what was tried."""
    if one.reason.startswith(DECLARED):
        return one.reason
    if one.reason.startswith(ROUNDED):
        return f"the change is no larger than what rounding may do in this dtype ({one.reason})"
    words = one.mutant.name.split(" ")
    known = ATTRIBUTES.get(words[3], "") if one.mutant.kind == "attribute" and len(words) > 3 else ""
    if "left out" in one.mutant.name and one.mutant.kind == "attribute":
        known = "the default is the same within the attribute's digits"
    return f"{known or KINDS.get(one.mutant.kind, 'it is the same')} ({one.reason})"
