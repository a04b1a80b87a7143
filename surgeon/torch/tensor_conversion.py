"""Converts tensors of torch to NumPy arrays and back, without a change of dtype."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.utils import _pytree

from surgeon.errors import UsageError
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.torch_schema import SCALAR_TYPES

# Dtypes that NumPy lacks, with integers of the same size.
_BITS: Mapping[Any, tuple[Any, Any]] = MappingProxyType(
    {
        torch.bfloat16: (np.dtype(ml_dtypes.bfloat16), torch.int16),
        torch.float8_e4m3fn: (np.dtype(ml_dtypes.float8_e4m3fn), torch.int8),
        torch.float8_e4m3fnuz: (np.dtype(ml_dtypes.float8_e4m3fnuz), torch.int8),
        torch.float8_e5m2: (np.dtype(ml_dtypes.float8_e5m2), torch.int8),
        torch.float8_e5m2fnuz: (np.dtype(ml_dtypes.float8_e5m2fnuz), torch.int8),
    }
)
TORCH_TYPES: Mapping[int, torch.dtype] = MappingProxyType(
    {
        number: getattr(torch, dtype_name(number).replace("float8e", "float8_e"))
        for number in SCALAR_TYPES.values()
    }
)
"""The dtypes of torch by their numbers in onnx.TensorProto."""
ONNX_TYPES: Mapping[torch.dtype, int] = MappingProxyType({dtype: number for number, dtype in TORCH_TYPES.items()})


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy of a tensor as an array."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in _BITS:
        dtype, bits = _BITS[plain.dtype]
        return np.array(plain.view(bits).numpy()).view(dtype)
    return np.array(plain.resolve_conj().resolve_neg().numpy())


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """A copy of an array as a tensor."""
    for dtype, (own, bits) in _BITS.items():
        if array.dtype == own:
            integers = array.view(np.int16 if bits is torch.int16 else np.int8)
            return torch.from_numpy(np.array(integers)).view(dtype)
    return torch.from_numpy(np.array(array))


def torch_dtype(number: int) -> torch.dtype:
    """The dtype of a number of onnx.TensorProto.  Raises UsageError if torch does not have it."""
    if number not in TORCH_TYPES:
        raise UsageError(f"torch has no dtype for {number} of onnx.TensorProto. Use another dtype.")
    return TORCH_TYPES[number]


def tensor_leaves(value: Any, what: str) -> list[Any]:
    """The leaves of a tree of lists, tuples and dicts as tensors, in order, without None.

    what: the description of the tree in a message.  Raises UsageError for a leaf that is neither tensor nor number.
    """
    found = []
    for leaf in _pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)):
            found.append(torch.as_tensor(leaf))
        elif leaf is not None:
            raise UsageError(
                f"{what} contains a {type(leaf).__name__}, which a model cannot return. Return only tensors."
            )
    return found


def clone_tensors(value: Any) -> Any:
    """A tree with copies of its tensors, for a module that may write into its inputs."""
    return _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)
