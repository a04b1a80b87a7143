"""The error function of whole arrays, which numpy lacks; Python's takes one number at a time and four times as long.

Source: s_erf.c of FreeBSD's msun, which is also glibc's: "Copyright (C) 1993 by Sun Microsystems, Inc. All rights
reserved. Developed at SunPro, a Sun Microsystems, Inc. business. Permission to use, copy, modify, and distribute this
software is freely granted, provided that this notice is preserved."  Its error is less than one unit in the last place.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # np.ndarray of one of several float dtypes, which numpy's types cannot express

_one_by_one: Any = np.frompyfunc(math.erf, 1, 1)
_FEW = 2000  # below it, calls of Python's function are faster
_BLOCK = 1 << 15  # elements that fit into the processor's cache with all intermediate arrays
_SMALL, _MIDDLE, _LARGE, _ONE = 0.84375, 1.25, 1 / 0.35, 6.0
_AT_ONE = 8.45062911510467529297e-01  # erf(1), rounded to float32
# Numerators and denominators, constant first: in x² below _SMALL, in |x| − 1 below _MIDDLE, else in 1 / x².
_BELOW_SMALL = (
    (
        *(1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02),
        *(-5.77027029648944159157e-03, -2.37630166566501626084e-05),
    ),
    (
        *(1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03),
        *(1.32494738004321644526e-04, -3.96022827877536812320e-06),
    ),
)
_BELOW_MIDDLE = (
    (
        *(-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01),
        *(3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02),
        -2.16637559486879084300e-03,
    ),
    (
        *(1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02),
        *(1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02),
    ),
)
_BELOW_LARGE = (
    (
        *(-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01),
        *(-6.23753324503260060396e01, -1.62396669462573470355e02, -1.84605092906711035994e02),
        *(-8.12874355063065934246e01, -9.81432934416914548592e00),
    ),
    (
        *(1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02),
        *(6.45387271733267880336e02, 4.29008140027567833386e02, 1.08635005541779435134e02),
        *(6.57024977031928170135e00, -6.04244152148580987438e-02),
    ),
)
_BELOW_ONE = (
    (
        *(-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01),
        *(-1.60636384855821916062e02, -6.37566443368389627722e02, -1.02509513161107724954e03),
        -4.83519191608651397019e02,
    ),
    (
        *(1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03),
        *(3.19985821950859553908e03, 2.55305040643316442583e03, 4.74528541206955367215e02),
        -2.24409524465858183362e01,
    ),
)


def erf(x: Array) -> Array:
    """The error function, computed in float64 and returned in x's dtype and shape.  NaN for NaN."""
    wide = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
    if wide.size < _FEW:
        made = np.asarray(_one_by_one(wide), dtype=np.float64)
    else:
        made = np.concatenate([_of_block(wide[start : start + _BLOCK]) for start in range(0, wide.size, _BLOCK)])
    return made.reshape(np.shape(x)).astype(x.dtype)


def _of_block(x: Array) -> Array:
    size = np.abs(x)
    made = np.sign(size)  # stays for numbers from 6 on (one), and for NaN
    for low, high, compute in (
        (0.0, _SMALL, _of_small),
        (_SMALL, _MIDDLE, _of_middle),
        (_MIDDLE, _LARGE, lambda part: _of_large(part, _BELOW_LARGE)),
        (_LARGE, _ONE, lambda part: _of_large(part, _BELOW_ONE)),
    ):
        at = np.flatnonzero((size >= low) & (size < high))
        if at.size:
            made[at] = compute(size[at])
    return np.copysign(made, x)


def _ratio(x: Array, polynomials: tuple[Sequence[float], Sequence[float]]) -> Array:
    """Return the quotient of two polynomials by Horner's rule."""
    values = []
    for terms in polynomials:
        value = np.full_like(x, terms[-1])
        for term in terms[-2::-1]:
            value *= x
            value += term
        values.append(value)
    return values[0] / values[1]


def _of_small(x: Array) -> Array:
    return x + x * _ratio(x * x, _BELOW_SMALL)


def _of_middle(x: Array) -> Array:
    return _AT_ONE + _ratio(x - 1, _BELOW_MIDDLE)


def _of_large(x: Array, polynomials: tuple[Sequence[float], Sequence[float]]) -> Array:
    """1 − exp(−x² + …) / x, with x² in two parts, the first of them exact."""
    head = (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    rest = _ratio(1 / (x * x), polynomials)
    return 1 - np.exp(-head * head - 0.5625) * np.exp((head - x) * (head + x) + rest) / x
