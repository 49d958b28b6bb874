// Fourier transforms of 1024 complex numbers each (radix 4, Stockham's order), one transform for each work-group.
#define N 1024
#define THREADS (N / 4)

static float2 times(float2 a, float2 b) { return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

kernel void fft_1024(global const float2 *in, global float2 *out, global const float2 *roots) {
    local float2 values[N];
    int t = get_local_id(0);
    in += get_group_id(0) * N;
    out += get_group_id(0) * N;
    float2 v[4];
    for (int r = 0; r < 4; ++r)
        v[r] = in[t + r * THREADS];
    for (int length = 1; length <= THREADS; length *= 4) {
        int k = t & (length - 1);
        for (int r = 1; r < 4; ++r)
            v[r] = times(v[r], roots[r * k * (THREADS / length)]);
        float2 ac = v[0] + v[2], a_c = v[0] - v[2], bd = v[1] + v[3], b_d = v[1] - v[3];
        v[0] = ac + bd;
        v[1] = (float2)(a_c.x + b_d.y, a_c.y - b_d.x);
        v[2] = ac - bd;
        v[3] = (float2)(a_c.x - b_d.y, a_c.y + b_d.x);
        if (length < THREADS) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int r = 0; r < 4; ++r)
                values[(t - k) * 4 + k + r * length] = v[r];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int r = 0; r < 4; ++r)
                v[r] = values[t + r * THREADS];
        }
    }
    for (int r = 0; r < 4; ++r)
        out[t + r * THREADS] = v[r];
}
