"""Exact arithmetic of the number formats that PTX has: bits to fractions and back, rounded once.

Nothing here knows Margay. NaN results are the word NAN; a case whose result PTX leaves open is None.
"""

from fractions import Fraction

NAN = "nan"
INF = float("inf")


class Format:
    """A binary format: `exp` bits of exponent, `frac` bits of fraction.

    `special` tells what the largest exponent means: "ieee" infinities and NaNs, "nan" (e4m3) a NaN with
    all ones only, "none" (6 and 4 bits) ordinary numbers.
    """

    def __init__(self, name, exp, frac, special="ieee", low=0):
        self.name, self.exp, self.frac, self.special = name, exp, frac, special
        self.low = low  # unused bits below the fraction (tf32)
        self.bias = (1 << (exp - 1)) - 1
        self.width = 1 + exp + frac + low
        self.sign = 1 << (self.width - 1)
        self.emin = 1 - self.bias
        top = (1 << exp) - 1
        if special == "ieee":
            self.largest = self.value(((top - 1) << frac | ((1 << frac) - 1)) << low)
        elif special == "nan":
            self.largest = self.value(((top << frac) | ((1 << frac) - 2)) << low)
        else:
            self.largest = self.value(((top << frac) | ((1 << frac) - 1)) << low)
        self.inf = (top << frac) << low
        self.min_normal = Fraction(2) ** self.emin

    def value(self, bits):
        """A Fraction, INF, -INF or NAN."""
        negative = bits & self.sign
        bits = (bits & (self.sign - 1)) >> self.low
        power, part = bits >> self.frac, bits & ((1 << self.frac) - 1)
        top = (1 << self.exp) - 1
        if power == top and self.special == "ieee":
            if part:
                return NAN
            return -INF if negative else INF
        if power == top and self.special == "nan" and part == (1 << self.frac) - 1:
            return NAN
        if power == 0:
            number = Fraction(part) * Fraction(2) ** (self.emin - self.frac)
        else:
            number = (Fraction(part) + (1 << self.frac)) * Fraction(2) ** (power - self.bias - self.frac)
        return -number if negative else number

    def is_zero(self, bits):
        return self.value(bits) == 0

    def is_nan(self, bits):
        return self.value(bits) == NAN

    def is_subnormal(self, bits):
        v = self.value(bits)
        return v not in (NAN, INF, -INF) and v != 0 and abs(v) < self.min_normal

    def flush(self, bits):
        return bits & self.sign if self.is_subnormal(bits) else bits

    def quantum(self, v):
        """The distance of this format's numbers around |v|."""
        return Fraction(2) ** (max(exponent(abs(v)), self.emin) - self.frac)

    def round(self, v, mode="rn", negative_zero=False, overflow=None):
        """The bits of the fraction `v`, rounded once. `overflow`: "max" for the largest finite value."""
        if v == 0:
            return self.sign if negative_zero else 0
        negative = v < 0
        quantum = self.quantum(v)
        whole = round_integer(v / quantum, mode)
        v = whole * quantum
        sign = self.sign if negative else 0
        if abs(v) > self.largest:
            return sign | self.overflowed(negative, mode, overflow)
        if v == 0:
            return sign
        return sign | self.exact(abs(v))

    def overflowed(self, negative, mode, overflow):
        largest = self.exact(self.largest)
        if overflow == "max" or self.special != "ieee":
            return largest
        toward_zero = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        return largest if toward_zero else self.inf

    def exact(self, v):
        """Bits of a positive number that the format has."""
        power = max(exponent(v), self.emin)
        part = v / Fraction(2) ** (power - self.frac)
        assert part.denominator == 1, (self.name, v)
        part = int(part)
        if part < 1 << self.frac:
            return part << self.low
        return ((power + self.bias) << self.frac | (part - (1 << self.frac))) << self.low


def exponent(v):
    """e with 2^e <= v < 2^(e+1), for v > 0."""
    e = v.numerator.bit_length() - v.denominator.bit_length()
    while Fraction(2) ** e > v:
        e -= 1
    while Fraction(2) ** (e + 1) <= v:
        e += 1
    return e


def round_integer(v, mode):
    """A fraction to a whole number."""
    low = v.numerator // v.denominator
    rest = v - low
    if rest == 0:
        return low
    if mode == "rz":
        return low if v > 0 else low + 1
    if mode == "rm":
        return low
    if mode == "rp":
        return low + 1
    if mode == "rna":
        if rest == Fraction(1, 2):
            return low + 1 if v > 0 else low
        return low + 1 if rest > Fraction(1, 2) else low
    assert mode == "rn", mode
    if rest == Fraction(1, 2):
        return low + (low & 1)
    return low + 1 if rest > Fraction(1, 2) else low


F16 = Format("f16", 5, 10)
BF16 = Format("bf16", 8, 7)
F32 = Format("f32", 8, 23)
F64 = Format("f64", 11, 52)
TF32 = Format("tf32", 8, 10, low=13)
E4M3 = Format("e4m3", 4, 3, special="nan")
E5M2 = Format("e5m2", 5, 2)
E2M3 = Format("e2m3", 2, 3, special="none")
E3M2 = Format("e3m2", 3, 2, special="none")
E2M1 = Format("e2m1", 2, 1, special="none")
FORMATS = {f.name: f for f in (F16, BF16, F32, F64, TF32, E4M3, E5M2, E2M3, E3M2, E2M1)}


def finish(fmt, bits, ftz=False, sat=False, relu=False):
    """What modifiers make of a result; None where PTX leaves the sign of a zero open."""
    if bits == NAN:
        # A NaN becomes +0 when saturated.
        return 0 if sat else NAN
    if ftz:
        bits = fmt.flush(bits)
    if sat:
        v = fmt.value(bits)
        if v == 0:
            return None if bits & fmt.sign else 0
        if v < 0:
            return 0
        return min(bits, fmt.exact(Fraction(1))) if v != INF else fmt.exact(Fraction(1))
    if relu:
        if bits == fmt.sign:
            return None
        return 0 if bits & fmt.sign else bits
    return bits


def product_sign(a, fa, b, fb):
    return bool(a & fa.sign) != bool(b & fb.sign)


def add_values(fmt, a, sa, b, sb, mode):
    """a + b of values with the signs that zeros have."""
    if NAN in (a, b):
        return NAN
    if a in (INF, -INF) or b in (INF, -INF):
        if a in (INF, -INF) and b in (INF, -INF) and a != b:
            return NAN
        infinite = a if a in (INF, -INF) else b
        return fmt.inf | (fmt.sign if infinite == -INF else 0)
    total = a + b
    if total == 0:
        if a == 0 and b == 0:
            negative = (sa and sb) or ((sa or sb) and mode == "rm")
        else:
            negative = mode == "rm"
        return fmt.sign if negative else 0
    return fmt.round(total, mode)


def tiny(fmt, exact, bits):
    """Whether flushing depends on when smallness is found: rounding reached the least normal number."""
    return bits != NAN and exact not in (NAN, INF, -INF) and 0 < abs(exact) < fmt.min_normal and (
        abs(fmt.value(bits)) == fmt.min_normal)


def fma(fmt, a, b, c, mode="rn", ftz=False, sat=False, relu=False, narrow=None):
    """a * b + c, rounded once; `narrow` is the format of a and b in mixed precision."""
    fab = narrow or fmt
    if ftz:
        a, b, c = fab.flush(a), fab.flush(b), fmt.flush(c)
    va, vb, vc = fab.value(a), fab.value(b), fmt.value(c)
    sign = product_sign(a, fab, b, fab)
    if NAN in (va, vb, vc):
        result, exact = NAN, NAN
    elif va in (INF, -INF) or vb in (INF, -INF):
        exact = NAN
        if va == 0 or vb == 0:
            result = NAN
        else:
            result = add_values(fmt, -INF if sign else INF, sign, vc, bool(c & fmt.sign), mode)
    else:
        exact = NAN if vc in (INF, -INF) else va * vb + vc
        result = add_values(fmt, va * vb, sign, vc, bool(c & fmt.sign), mode)
    if ftz and tiny(fmt, exact, result):
        return None
    return finish(fmt, result, ftz, sat, relu)


def add(fmt, a, b, mode="rn", ftz=False, sat=False, narrow=None):
    """a + b; `narrow` is the format of a in mixed precision."""
    fa = narrow or fmt
    if ftz:
        a, b = fa.flush(a), fmt.flush(b)
    va, vb = fa.value(a), fmt.value(b)
    result = add_values(fmt, va, bool(a & fa.sign), vb, bool(b & fmt.sign), mode)
    finite = not any(v in (NAN, INF, -INF) for v in (va, vb))
    if ftz and tiny(fmt, va + vb if finite else NAN, result):
        return None
    return finish(fmt, result, ftz, sat)


def sub(fmt, a, b, mode="rn", ftz=False, sat=False, narrow=None):
    if fmt.is_nan(b):
        return finish(fmt, NAN, ftz, sat)
    return add(fmt, a, b ^ fmt.sign, mode, ftz, sat, narrow)


def mul(fmt, a, b, mode="rn", ftz=False, sat=False):
    if ftz:
        a, b = fmt.flush(a), fmt.flush(b)
    va, vb = fmt.value(a), fmt.value(b)
    sign = fmt.sign if product_sign(a, fmt, b, fmt) else 0
    exact = NAN
    if NAN in (va, vb):
        result = NAN
    elif va in (INF, -INF) or vb in (INF, -INF):
        result = NAN if 0 in (va, vb) else sign | fmt.inf
    else:
        exact = va * vb
        result = sign | fmt.round(abs(exact), flip(mode, sign))
    if ftz and tiny(fmt, exact, result):
        return None
    return finish(fmt, result, ftz, sat)


def flip(mode, negative):
    """The mode that rounds the absolute value so as `mode` rounds the number."""
    return {"rm": "rp", "rp": "rm"}.get(mode, mode) if negative else mode


def div(fmt, a, b, mode="rn", ftz=False):
    if ftz:
        a, b = fmt.flush(a), fmt.flush(b)
    va, vb = fmt.value(a), fmt.value(b)
    sign = fmt.sign if product_sign(a, fmt, b, fmt) else 0
    exact = NAN
    if NAN in (va, vb) or (va == 0 and vb == 0):
        result = NAN
    elif va in (INF, -INF):
        result = NAN if vb in (INF, -INF) else sign | fmt.inf
    elif vb in (INF, -INF) or va == 0:
        result = sign
    elif vb == 0:
        result = sign | fmt.inf
    else:
        exact = va / vb
        result = sign | fmt.round(abs(exact), flip(mode, sign))
    if ftz and tiny(fmt, exact, result):
        return None
    return finish(fmt, result, ftz)


def rcp(fmt, a, mode="rn", ftz=False):
    return div(fmt, fmt.exact(Fraction(1)), a, mode, ftz)


def sqrt(fmt, a, mode="rn", ftz=False):
    if ftz:
        a = fmt.flush(a)
    v = fmt.value(a)
    if v == NAN:
        return NAN
    if v == 0:
        return a
    if v < 0:
        return NAN
    if v == INF:
        return fmt.inf
    # A square root of the format's numbers is normal: scale it so that its integer root has enough bits.
    half = exponent(v) // 2
    shift = 2 * (fmt.frac + 2 - half)
    scaled = v * Fraction(2) ** shift
    root = isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled
    low = Fraction(root) / Fraction(2) ** (shift // 2)
    # Between two neighbours any number stands for the root.
    return fmt.round(low if exact else low + Fraction(1, 2) / Fraction(2) ** (shift // 2), mode)


def isqrt(n):
    import math
    return math.isqrt(n)


def minmax(fmt, operands, greater, ftz=False, nan=False, take_abs=False, xorsign=False):
    """min or max of two or three operands."""
    if len(operands) == 3:
        first = minmax(fmt, operands[:2], greater, ftz, nan, take_abs)
        first = fmt.inf | 1 if first == NAN else first
        return minmax(fmt, [first, operands[2]], greater, ftz, nan, take_abs)
    a, b = (fmt.flush(x) for x in operands) if ftz else operands
    sign = (a ^ b) & fmt.sign
    if take_abs:
        a, b = a & ~fmt.sign, b & ~fmt.sign
    if fmt.is_nan(a) and fmt.is_nan(b) or nan and (fmt.is_nan(a) or fmt.is_nan(b)):
        return NAN
    if fmt.is_nan(a):
        result = b
    elif fmt.is_nan(b):
        result = a
    else:
        order = lambda x: (fmt.value(x), 0 if x & fmt.sign else 1)
        result = (max if greater else min)(a, b, key=order)
    return result & ~fmt.sign | sign if xorsign else result


def convert(to, source, a, mode="rn", ftz=False, sat=False, relu=False, satfinite=False):
    """A number of one format in another."""
    if ftz and source.name == "f32":
        a = source.flush(a)
    v = source.value(a)
    negative = bool(a & source.sign)
    if v == NAN:
        if satfinite and to.special == "none":
            # These formats have no NaN: their largest number stands for it.
            return to.exact(to.largest)
        return finish(to, NAN, False, sat, relu)
    sign = to.sign if negative else 0
    if v in (INF, -INF):
        if satfinite or to.special != "ieee":
            result = sign | to.exact(to.largest)
        else:
            result = sign | to.inf
    else:
        result = to.round(v, mode, negative, "max" if satfinite else None)
    if ftz and to.name == "f32":
        if v not in (INF, -INF) and tiny(to, v, result):
            return None
        result = to.flush(result)
    return finish(to, result, False, sat, relu)


def to_integer(source, a, bits, signed, mode, ftz=False):
    """A number as a whole one, saturated; NaN as PTX ISA 9.7.9.21 says."""
    if ftz:
        a = source.flush(a)
    v = source.value(a)
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - (1 if signed else 0))) - 1
    if v == NAN:
        return 1 << (bits - 1) if source.name == "f64" or bits == 64 else 0
    if v == INF:
        return high
    if v == -INF:
        return low & ((1 << bits) - 1)
    whole = round_integer(v, mode)
    return max(low, min(high, whole)) & ((1 << bits) - 1)


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
