"""Two numbers as text, of which one is held against the other."""

_MOST = 17  # digits that tell all doubles apart


def format_beside_limit(found: float, allowed: float, digits: tuple[int, int] = (3, 3)) -> tuple[str, str]:
    """What was found and what is allowed, in so many digits, or in as many more as say truly whether that is kept.

    0.000643 beside an allowed 0.00064 reads like a failure where both are 0.000643 but for the seventh digit.
    """
    for more in range(_MOST):
        texts = tuple(f"{number:.{count + more}g}" for number, count in zip((found, allowed), digits, strict=True))
        if (float(texts[0]) <= float(texts[1])) == (found <= allowed):
            break
    return texts[0], texts[1]
