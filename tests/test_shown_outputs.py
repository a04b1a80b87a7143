"""Which differences between documented and actual outputs are allowed."""

import pytest

from tests.shown import agree, differences, missing

OFF = "  close  y: float32[3, 11], off by at most {} at {} ({} relative); 1.3e-06 relative and 1e-05 absolute allowed"
WORST = "differs  worst {} absolute, {} relative, {} ULP (the original: {} absolute, 2e-06 relative) in 'gelu_3'"
BY = "differs from the float64 reference by {} (limit 5.37e-05"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (OFF.format("7.15e-07", "[1, 4]", "0.000257"), OFF.format("5.96e-07", "[0, 10]", "0.000745")),
        (WORST.format("1.4e-07", "2e-06", "23.7", "9.5e-08"), WORST.format("9.1e-08", "8e-06", "3.1", "1e-07")),
        (WORST.format("0.000466", "0.08", "9.46e+05", "1e-07"), WORST.format("0.000467", "0.08", "9.47e+05", "9e-07")),
        ("[ 0.828  1.113 -0.067]", "[ 0.828  1.112 -0.067]"),
        ("[-3.5 -4.5  1.  -0.5]", "[-3.5 -4.5  1.  -0.5]"),
        ("[0.1 1.]", "[0.1000001 0.9999999]"),
        ("off by 5e-04", "off by 6e-04"),
        ("tensor(-2.0000)  11", "tensor(-2.0001)  11"),
        ("wrote    out.onnx (0.8 s; details: -v)", "wrote    out.onnx (12.3 s; details: -v)"),
        ("note     a long\n         line", "note     a long line"),
    ],
)
def test_digits_in_which_machines_differ(shown, printed):
    assert agree(shown, printed)
    assert agree(printed, shown)
    assert differences(f"a\n{shown}\nb", f"a\n{printed}\nb") == []
    assert missing(shown, f"a\n{printed}\n") == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (OFF.format("7.15e-07", "[1, 4]", "0.0002"), OFF.format("7.25e-06", "[1, 4]", "0.0002")),
        (OFF.format("0.00715", "[1, 4]", "0.02"), OFF.format("0.00725", "[1, 4]", "0.02")),
        (OFF.format("0.00715", "[1, 4]", "0.02"), OFF.format("0.00715", "[1, 5]", "0.02")),
        (OFF.format("7.15e-07", "[1, 4]", "0.02"), OFF.format("7.15e-07", "[1, 4]", "0.02").replace("close", "far")),
        (OFF.format("7.15e-07", "[1, 4]", "0.02"), OFF.format("7.15e-07", "[1, 4]", "0.02").replace("11]", "12]")),
        (OFF.format("7.15e-07", "[1, 4]", "0.02"), OFF.format("7.15e-07", "[1, 4]", "0.02").replace("1e-05", "1e-04")),
        (WORST.format("1.4e-07", "2e-06", "23.7", "9e-08"), WORST.format("1.4e-07", "2e-06", "23.7", "0.1")),
        (WORST.format("0.000466", "0.08", "23.7", "1e-07"), WORST.format("0.00047", "0.1", "23.7", "1e-07")),
        (WORST.format("1e-07", "2e-06", "2.1", "9e-08"), WORST.format("1e-07", "2e-06", "2.1", "9e-08")[:-2] + "4'"),
        (BY.format("0.000466"), BY.format("0.000469")),
        ("PROVED  4 of 4 sites proved", "PROVED  3 of 4 sites proved"),
        ("nodes    180 -> 164", "nodes    180 -> 165"),
        ("2 proofs, 42 runs", "2 proofs, 43 runs"),
        ("[ 0.828  1.113]", "[ 0.828  1.115]"),
        ("[ 0.828  1.113]", "[ 0.828 -1.113]"),
        ("off by 5e-04", "off by 5e-03"),
        ("torch 2.13.0", "torch 2.13.1"),
        ("{'scale': 0.25}", "{'scale': 0.5}"),
        ("val_154 of 0.4", "val_155 of 0.4"),
    ],
)
def test_what_is_another_thing(shown, printed):
    assert not agree(shown, printed)
    assert not agree(printed, shown)
    assert differences(shown, printed) == [f"- {shown}\n+ {printed}"]
    assert missing(shown, printed) == [shown]


def test_a_line_more_or_less_is_a_difference():
    assert differences("a\nb", "a") == ["- b\n+ "]
    assert differences("a", "a\nb 0.5") == ["- \n+ b 0.5"]
    assert missing("a\n\nb\n", "b\nc") == ["a"]
