// Tests arithmetic and conversions of f16 and bf16, for single values and pairs. A product or a sum of two of the
// inputs is exact in f64, so the host rounds it once to get the expected bits.
#include "common.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Bits {
    unsigned short sum, product, fused, difference, quotient, negated, minimum, from_int;
    float back;
    int to_int, less;
};

extern "C" __global__ void half_arithmetic(const unsigned short *a, const unsigned short *b,
                                           Bits *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = __ushort_as_half(a[i]), y = __ushort_as_half(b[i]);
    Bits r;
    r.sum = __half_as_ushort(__hadd_rn(x, y));
    r.product = __half_as_ushort(__hmul_rn(x, y));
    r.fused = __half_as_ushort(__hfma(x, y, x));
    r.difference = __half_as_ushort(__hsub_rn(x, y));
    r.quotient = __half_as_ushort(__float2half_rn(__half2float(x) * 0.5f));
    r.negated = __half_as_ushort(__hneg(x));
    r.minimum = __half_as_ushort(__hmin(x, y));
    r.from_int = __half_as_ushort(__int2half_rn(i * 37 - 1000));
    r.back = __half2float(x);
    r.to_int = __half2int_rz(x);
    r.less = __hlt(x, y);
    out[i] = r;
}

extern "C" __global__ void half_pairs(const __half2 *a, const __half2 *b, __half2 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = __hfma2(a[i], b[i], __lows2half2(a[i], b[i]));
}

extern "C" __global__ void bfloat_arithmetic(const float *a, const float *b, unsigned short *out,
                                             int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __nv_bfloat16 x = __float2bfloat16_rn(a[i]), y = __float2bfloat16_rn(b[i]);
    out[2 * i] = __bfloat16_as_ushort(x);
    out[2 * i + 1] = __bfloat16_as_ushort(__hfma(x, y, y));
}

// Rounds to a format with `digits` binary digits and units of at least 2^lowest; ties to even.
static double round_to(double value, int digits, int lowest) {
    if (value == 0 || !std::isfinite(value))
        return value;
    int exponent = 0;
    std::frexp(value, &exponent);
    double unit = std::ldexp(1.0, std::max(exponent - digits, lowest));
    return std::nearbyint(value / unit) * unit;
}

static double half_value(unsigned short bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

// Rounds a value to f16 and returns its bits.
static unsigned short half_bits(double value) {
    unsigned short sign = std::signbit(value) ? 0x8000 : 0;
    value = round_to(std::fabs(value), 11, -24);
    if (value == 0)
        return sign;
    if (value > 65504)
        return sign | 0x7c00;
    int exponent = 0;
    std::frexp(value, &exponent);
    if (exponent < -13)
        return sign | (unsigned short)(std::ldexp(value, 24));
    return sign | (unsigned short)(((exponent + 14) << 10) + std::ldexp(value, 11 - exponent) - 1024);
}

static unsigned short bfloat_bits(double value) {
    float rounded = float(round_to(value, 8, -133));
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    return (unsigned short)(bits >> 16);
}

int main() {
    const int n = 200;
    std::vector<unsigned short> a(n), b(n);
    Random random(21);
    for (int i = 0; i < n; ++i) {
        // Exponents from subnormal to 2^6, so every product is finite.
        a[i] = (unsigned short)(random.below(2) << 15 | random.below(22) << 10 | random.below(1024));
        b[i] = (unsigned short)(random.below(2) << 15 | random.below(22) << 10 | random.below(1024));
    }
    std::vector<unsigned short> got16, want16;
    std::vector<float> gotf, wantf;
    Buffer<unsigned short> da(a), db(b);
    Buffer<Bits> out(n);
    half_arithmetic<<<2, 128>>>(da.ptr(), db.ptr(), out.ptr(), n);
    LAUNCH_OK();
    std::vector<Bits> bits = out.get();
    for (int i = 0; i < n; ++i) {
        double x = half_value(a[i]), y = half_value(b[i]);
        const Bits &r = bits[i];
        got16.insert(got16.end(), {r.sum, r.product, r.fused, r.difference, r.quotient, r.negated,
                                   r.minimum, r.from_int});
        unsigned short minimum = x < y ? a[i] : b[i];
        want16.insert(want16.end(),
                      {half_bits(x + y), half_bits(x * y), half_bits(x * y + x), half_bits(x - y),
                       half_bits(x * 0.5), (unsigned short)(a[i] ^ 0x8000), minimum,
                       half_bits(i * 37 - 1000)});
        gotf.insert(gotf.end(), {r.back, float(r.to_int), float(r.less)});
        wantf.insert(wantf.end(), {float(x), float(int(x)), float(x < y)});
    }
    Verdict verdict("half_arithmetic");
    verdict.equal("half", got16, want16);
    verdict.equal("from half", gotf, wantf);

    Buffer<unsigned short> pairs(n);
    half_pairs<<<1, 128>>>(reinterpret_cast<__half2 *>(da.ptr()),
                           reinterpret_cast<__half2 *>(db.ptr()),
                           reinterpret_cast<__half2 *>(pairs.ptr()), n / 2);
    LAUNCH_OK();
    std::vector<unsigned short> want_pairs(n);
    for (int i = 0; i < n; ++i) {
        double c = half_value(i % 2 == 0 ? a[i] : b[i - 1]);
        want_pairs[i] = half_bits(half_value(a[i]) * half_value(b[i]) + c);
    }
    verdict.equal("pairs", pairs.get(), want_pairs);

    std::vector<float> fa(n), fb(n);
    std::vector<unsigned short> want_bf(2 * n);
    for (int i = 0; i < n; ++i) {
        fa[i] = (random.unit() - 0.5f) * 8.0f;
        fb[i] = random.unit() * 3.0f + 0.25f;
        double x = round_to(fa[i], 8, -133), y = round_to(fb[i], 8, -133);
        want_bf[2 * i] = bfloat_bits(fa[i]);
        want_bf[2 * i + 1] = bfloat_bits(x * y + y);
    }
    Buffer<float> dfa(fa), dfb(fb);
    Buffer<unsigned short> bf(2 * n);
    bfloat_arithmetic<<<2, 128>>>(dfa.ptr(), dfb.ptr(), bf.ptr(), n);
    LAUNCH_OK();
    verdict.equal("bfloat", bf.get(), want_bf);
    return verdict.finish();
}
