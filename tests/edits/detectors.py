"""Detectors with random weights, exported: heads of SSD, RetinaNet and FCOS in plain torch, and DETR's kin."""

from __future__ import annotations

import io
import logging
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional

CLASSES, ANCHORS = 5, 3


class _Trunk(nn.Module):
    def __init__(self, boxes, scores):
        super().__init__()
        self.near, self.far = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.box = nn.ModuleList(nn.Conv2d(8, boxes, 3, padding=1) for _ in range(2))
        self.score = nn.ModuleList(nn.Conv2d(8, scores, 3, padding=1) for _ in range(2))
        for layer in (*self.box, *self.score):
            nn.init.normal_(layer.weight, std=0.4)

    def levels(self, x):
        near = torch.relu(self.near(x))
        return near, torch.relu(self.far(near))


def _rows(x, width):
    """[n, a * width, h, w] as [n, h * w * a, width]."""
    n, _, h, w = x.shape
    return x.view(n, -1, width, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, width)


def _joined(layers, levels, width, then=None):
    rows = [_rows(layer(level), width) for layer, level in zip(layers, levels, strict=True)]
    return torch.cat(rows if then is None else [then(row) for row in rows], 1)


def _anchors(count):
    grid = torch.rand(count, 2, generator=torch.Generator().manual_seed(3))
    return torch.cat([grid, torch.full((count, 2), 0.3)], 1)


class Ssd(_Trunk):
    """As torchvision and pytorch-ssd have it: offsets with variances, by exp and scale; a softmax with background."""

    def __init__(self, corners=True, softmax=True):
        super().__init__(ANCHORS * 4, ANCHORS * (CLASSES + 1))
        self.corners, self.softmax = corners, softmax
        self.register_buffer("anchors", _anchors(ANCHORS * 20))

    def forward(self, x):
        levels = self.levels(x)
        offsets = _joined(self.box, levels, 4)
        scores = _joined(self.score, levels, CLASSES + 1)
        centre = self.anchors[:, :2] + offsets[..., :2] * 0.1 * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * torch.exp(offsets[..., 2:] * 0.2)
        pair = (centre - size / 2, centre + size / 2) if self.corners else (centre, size)
        return functional.softmax(scores, -1) if self.softmax else scores, torch.cat(pair, -1)


class RetinaNet(_Trunk):
    """As torchvision has it: each number of a box by itself, stacked, and clipped; sigmoids joined level by level."""

    def __init__(self, sigmoid=True):
        super().__init__(ANCHORS * 4, ANCHORS * CLASSES)
        self.sigmoid = sigmoid
        self.register_buffer("anchors", _anchors(ANCHORS * 20))

    def forward(self, x):
        levels = self.levels(x)
        offsets = _joined(self.box, levels, 4)
        act = torch.sigmoid if self.sigmoid else None
        scores = _joined(self.score, levels, CLASSES, act)
        dx, dy, dw, dh = offsets.unbind(-1)
        ax, ay, aw, ah = self.anchors.unbind(-1)
        cx, cy = dx * aw + ax, dy * ah + ay
        w, h = torch.exp(torch.clamp(dw, max=4.0)) * aw, torch.exp(torch.clamp(dh, max=4.0)) * ah
        boxes = torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=2)
        return boxes.clamp(0, 1), scores


class Fcos(_Trunk):
    """Distances to four sides, and a score times how central a point is."""

    def __init__(self):
        super().__init__(4, CLASSES + 1)
        self.register_buffer("points", _anchors(20)[:, :2])

    def forward(self, x):
        levels = self.levels(x)
        sides, both = torch.relu(_joined(self.box, levels, 4)), _joined(self.score, levels, CLASSES + 1)
        boxes = torch.cat([self.points - sides[..., :2], self.points + sides[..., 2:]], -1)
        return torch.sqrt(torch.sigmoid(both[..., :-1]) * torch.sigmoid(both[..., -1:])), boxes


SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_queries": 12,
    "num_labels": 7,
}


def _backbone(kind, stages):
    return kind(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=[f"stage{number}" for number in stages],
    )


def transformer(name):
    """A detector of transformers, small and with random weights."""
    import transformers as hf

    torch.manual_seed(0)
    if name == "yolos":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        config = hf.YolosConfig(**sizes, image_size=[64, 64], patch_size=16, num_detection_tokens=12, num_labels=7)
        return hf.YolosForObjectDetection(config)
    if name == "rt_detr":
        sizes = {f"{part}_ffn_dim": 32 for part in ("encoder", "decoder")}
        heads = {f"{part}_attention_heads": 2 for part in ("encoder", "decoder")}
        config = hf.RTDetrConfig(
            backbone_config=_backbone(hf.RTDetrResNetConfig, (2, 3, 4)),
            encoder_hidden_dim=32,
            encoder_in_channels=[8, 16, 16],
            decoder_in_channels=[32, 32, 32],
            d_model=32,
            num_queries=12,
            decoder_layers=2,
            num_labels=7,
            **sizes,
            **heads,
        )
        return hf.RTDetrForObjectDetection(config)
    kinds = {
        "detr": (hf.DetrForObjectDetection, hf.DetrConfig, (4,)),
        "conditional_detr": (hf.ConditionalDetrForObjectDetection, hf.ConditionalDetrConfig, (4,)),
        "deformable_detr": (hf.DeformableDetrForObjectDetection, hf.DeformableDetrConfig, (2, 3, 4)),
    }
    kind, configured, stages = kinds[name]
    more = {"num_feature_levels": 3, "with_box_refine": True} if name == "deformable_detr" else {}
    backbone = _backbone(hf.ResNetConfig, stages)
    config = configured(backbone_config=backbone, use_timm_backbone=False, backbone=None, **SMALL, **more)
    return kind(config)


class Answers(nn.Module):
    """A detector of transformers that answers with all tensors of its output, also those of no use."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return {name: value for name, value in self.model(pixel_values=x).items() if torch.is_tensor(value)}


def exported(model, names=None, opset=17, dynamo=False, size=(16, 16)):
    """The export of a model of one picture as a ModelProto."""
    x = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    model = model.eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        names = names or list(model(x))
        file = io.BytesIO()
        torch.onnx.export(model, (x,), file, input_names=["x"], output_names=names, opset_version=opset, dynamo=dynamo)
    return onnx.load_from_string(file.getvalue())
