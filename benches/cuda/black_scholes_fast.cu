// Prices of European options, compiled with fast-math options: approximate functions, and subnormals flushed to zero.
// nvcc -ptx -arch=compute_75 -O3 -use_fast_math black_scholes_fast.cu -o black_scholes_fast.ptx

__device__ float normal_cdf(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * expf(-0.5f * d * d) * poly;
    return d > 0 ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float *spot, const float *strike, const float *years, float *call,
                                         float *put, float rate, float volatility, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float root = sqrtf(years[i]);
    float d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
    float d2 = d1 - volatility * root;
    float discounted = strike[i] * expf(-rate * years[i]);
    call[i] = spot[i] * normal_cdf(d1) - discounted * normal_cdf(d2);
    put[i] = discounted * normal_cdf(-d2) - spot[i] * normal_cdf(-d1);
}
