"""Models of nnsmith (Liu et al., ASPLOS 2023), which solves constraints of shapes to make valid graphs of torch ops."""

import contextlib
import io
import logging
import os
import warnings
import zlib

import onnx


class NoModel(Exception):
    """nnsmith found no graph for a seed, or torch does not export it."""


def is_there() -> bool:
    """Whether nnsmith and torch are installed."""
    import importlib.util

    return all(importlib.util.find_spec(name) is not None for name in ("nnsmith", "torch"))


def generate(seed: str, opset: int = 17) -> onnx.ModelProto:
    """A model of up to ten nodes of torch, by its TorchScript exporter.  Raises NoModel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from nnsmith.abstract.dtype import DTYPE_GEN_ALL, DTYPE_GEN_COMPLEX
        from nnsmith.graph_gen import model_gen
        from nnsmith.materialize.onnx import ONNXModelCPU

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            warnings.simplefilter("ignore")
            found = model_gen(
                opset=ONNXModelCPU.operators(),
                method="symbolic-cinit",
                seed=zlib.crc32(seed.encode()),
                max_nodes=8,
                timeout_ms=20_000,
                max_elem_per_tensor=1 << 12,
                dtype_choices=[dtype for dtype in DTYPE_GEN_ALL if dtype not in DTYPE_GEN_COMPLEX],
            )
            net = ONNXModelCPU.from_gir(found.make_concrete()).torch_model
            net.eval()
            sample = tuple(
                torch.ones(size=value.shape).uniform_(1, 2).to(dtype=value.dtype.torch())
                for value in net.input_like.values()
            )
            with torch.no_grad():
                torch.onnx.export(
                    net,
                    sample,
                    file,
                    input_names=list(net.input_like),
                    output_names=list(net.output_like),
                    do_constant_folding=False,
                    opset_version=opset,
                    dynamo=False,
                )
    except Exception as error:
        raise NoModel(str(error)) from error
    finally:
        logging.disable(logging.NOTSET)
    return onnx.ModelProto.FromString(file.getvalue())
