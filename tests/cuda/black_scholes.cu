// Computes prices of European options with exponentials, logarithms, roots and divisions, once with the accurate
// library functions and once with the approximate functions of the hardware.
#include "common.h"

__device__ float normal_cdf(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float poly =
        k * (0.31938153f +
             k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * expf(-0.5f * d * d) * poly;
    return d > 0 ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float *spot, const float *strike, const float *years,
                                         float *call, float *put, float rate, float volatility,
                                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float root = sqrtf(years[i]);
    float d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
               (volatility * root);
    float d2 = d1 - volatility * root;
    float discounted = strike[i] * expf(-rate * years[i]);
    call[i] = spot[i] * normal_cdf(d1) - discounted * normal_cdf(d2);
    put[i] = discounted * normal_cdf(-d2) - spot[i] * normal_cdf(-d1);
}

extern "C" __global__ void black_scholes_fast(const float *spot, const float *strike,
                                              const float *years, float *call, float rate,
                                              float volatility, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float inverse_root = rsqrtf(years[i]);
    float root = __fdividef(1.0f, inverse_root);
    float d1 = __fdividef(__logf(__fdividef(spot[i], strike[i])) +
                              (rate + 0.5f * volatility * volatility) * years[i],
                          volatility * root);
    float d2 = d1 - volatility * root;
    auto cdf = [](float d) {
        float k = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d));
        float poly = k * (0.31938153f +
                          k * (-0.356563782f +
                               k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
        float tail = 0.39894228f * __expf(-0.5f * d * d) * poly;
        return d > 0 ? 1.0f - tail : tail;
    };
    call[i] = spot[i] * cdf(d1) - strike[i] * __expf(-rate * years[i]) * cdf(d2);
}

int main() {
    const int n = 3000;
    const double rate = 0.02, volatility = 0.3;
    std::vector<float> spot(n), strike(n), years(n), call(n), put(n);
    Random random(10);
    auto cdf = [](double d) { return 0.5 * std::erfc(-d * std::sqrt(0.5)); };
    for (int i = 0; i < n; ++i) {
        spot[i] = 5.0f + 25.0f * random.unit();
        strike[i] = 1.0f + 99.0f * random.unit();
        years[i] = 0.25f + 9.75f * random.unit();
        double root = std::sqrt(double(years[i]));
        double d1 = (std::log(double(spot[i]) / strike[i]) +
                     (rate + 0.5 * volatility * volatility) * years[i]) /
                    (volatility * root);
        double d2 = d1 - volatility * root, discounted = strike[i] * std::exp(-rate * years[i]);
        call[i] = float(spot[i] * cdf(d1) - discounted * cdf(d2));
        put[i] = float(discounted * cdf(-d2) - spot[i] * cdf(-d1));
    }
    Buffer<float> dspot(spot), dstrike(strike), dyears(years), dcall(n), dput(n), dfast(n);
    black_scholes<<<(n + 127) / 128, 128>>>(dspot.ptr(), dstrike.ptr(), dyears.ptr(), dcall.ptr(),
                                            dput.ptr(), float(rate), float(volatility), n);
    black_scholes_fast<<<(n + 127) / 128, 128>>>(dspot.ptr(), dstrike.ptr(), dyears.ptr(),
                                                 dfast.ptr(), float(rate), float(volatility), n);
    LAUNCH_OK();

    Verdict verdict("black_scholes");
    verdict.close("call", dcall.get(), call, 1e-4);
    verdict.close("put", dput.get(), put, 1e-4);
    verdict.close("fast call", dfast.get(), call, 5e-4);
    return verdict.finish();
}
