// Prices of European options. The benchmark compiles this source without and with the option for fast math.
static float normal_cdf(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
    float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228f * exp(-0.5f * d * d) * poly;
    return d > 0 ? 1.0f - tail : tail;
}

kernel void black_scholes(global const float *spot, global const float *strike, global const float *years,
                          global float *call, global float *put, float rate, float volatility, int n) {
    int i = get_global_id(0);
    if (i >= n)
        return;
    float root = sqrt(years[i]);
    float d1 = (log(spot[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
    float d2 = d1 - volatility * root;
    float discounted = strike[i] * exp(-rate * years[i]);
    call[i] = spot[i] * normal_cdf(d1) - discounted * normal_cdf(d2);
    put[i] = discounted * normal_cdf(-d2) - spot[i] * normal_cdf(-d1);
}
