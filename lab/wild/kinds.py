"""Tells kinds of multipliers apart by their values at two sizes of head."""
import math

TOLERANCE = 1e-4


def close(a, b):
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))


def kind_of(one, two):
    """Returns the kind of function of d_k that two (d_k, multiplier, width) show, and its constant."""
    (d1, m1, w1), (d2, m2, w2) = one, two
    if d1 == d2:
        return "one size", m1 * math.sqrt(d1)
    if close(m1, m2):
        return ("nothing", 1.0) if close(m1, 1) else ("constant", m1)
    if close(m1 * math.sqrt(d1), m2 * math.sqrt(d2)):
        constant = m1 * math.sqrt(d1)
        return ("sqrt_dk", 1.0) if close(constant, 1) else ("times sqrt_dk", constant)
    if close(m1 / math.sqrt(d1), m2 / math.sqrt(d2)):
        return "by sqrt_dk", m1 / math.sqrt(d1)
    if close(m1 * d1, m2 * d2):
        return "dk", m1 * d1
    if w1 != w2 and close(m1 * math.sqrt(w1), m2 * math.sqrt(w2)):
        return "width", m1 * math.sqrt(w1)
    return "other", m1 * math.sqrt(d1)
