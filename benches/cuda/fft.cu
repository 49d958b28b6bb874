// Fourier transforms of 1024 complex numbers each (radix 4, Stockham's order). A block of 256 threads computes one
// transform in shared memory. `roots[k]` is exp(-2 pi i k / 1024).
// nvcc -ptx -arch=compute_75 -O3 fft.cu -o fft.ptx

constexpr int N = 1024, THREADS = N / 4;

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

extern "C" __global__ void fft_1024(const float2 *in, float2 *out, const float2 *roots) {
    __shared__ float2 values[N];
    int t = threadIdx.x;
    in += blockIdx.x * N;
    out += blockIdx.x * N;
    float2 v[4];
    for (int r = 0; r < 4; ++r)
        v[r] = in[t + r * THREADS];
    for (int length = 1;; length *= 4) {
        int k = t & (length - 1);
        for (int r = 1; r < 4; ++r)
            v[r] = times(v[r], roots[r * k * (THREADS / length)]);
        float2 ac = plus(v[0], v[2]), a_c = minus(v[0], v[2]), bd = plus(v[1], v[3]), b_d = minus(v[1], v[3]);
        v[0] = plus(ac, bd);
        v[1] = make_float2(a_c.x + b_d.y, a_c.y - b_d.x);
        v[2] = minus(ac, bd);
        v[3] = make_float2(a_c.x - b_d.y, a_c.y + b_d.x);
        if (length == THREADS)
            break;
        __syncthreads(); // all threads have read the previous values
        for (int r = 0; r < 4; ++r)
            values[(t - k) * 4 + k + r * length] = v[r];
        __syncthreads();
        for (int r = 0; r < 4; ++r)
            v[r] = values[t + r * THREADS];
    }
    for (int r = 0; r < 4; ++r)
        out[t + r * THREADS] = v[r];
}
