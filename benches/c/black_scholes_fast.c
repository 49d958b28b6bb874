// Prices of European options, compiled with fast-math options. Buffers: spot, strike, years, call, put. Numbers: n.
#define RATE 0.02f
#define VOLATILITY 0.3f

const int phases = 1;

static inline float normal(float d) {
    float k = 1 / (1 + 0.2316419f * fabsf(d));
    float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * expf(-0.5f * d * d) * poly;
    return d > 0 ? 1 - tail : tail;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict spot = buffers[0], *restrict strike = buffers[1], *restrict years = buffers[2];
    float *restrict call = buffers[3], *restrict put = buffers[4];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i) {
        float root = sqrtf(years[i]);
        float d1 = (logf(spot[i] / strike[i]) + (RATE + 0.5f * VOLATILITY * VOLATILITY) * years[i]) / (VOLATILITY * root);
        float d2 = d1 - VOLATILITY * root;
        float discounted = strike[i] * expf(-RATE * years[i]);
        call[i] = spot[i] * normal(d1) - discounted * normal(d2);
        put[i] = discounted * normal(-d2) - spot[i] * normal(-d1);
    }
}
