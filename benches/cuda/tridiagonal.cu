// Tridiagonal systems of 256 equations each, solved by parallel cyclic reduction. A block solves one system in shared
// memory.
// nvcc -ptx -arch=compute_75 -O3 tridiagonal.cu -o tridiagonal.ptx

constexpr int SIZE = 256;

extern "C" __global__ void cyclic_reduction(const float *lower, const float *diagonal, const float *upper,
                                            const float *right, float *x) {
    __shared__ float a[SIZE], b[SIZE], c[SIZE], d[SIZE];
    int t = threadIdx.x, at = blockIdx.x * SIZE + t;
    a[t] = t > 0 ? lower[at] : 0;
    b[t] = diagonal[at];
    c[t] = t < SIZE - 1 ? upper[at] : 0;
    d[t] = right[at];
    __syncthreads();
    for (int distance = 1; distance < SIZE; distance *= 2) {
        float na = 0, nb = b[t], nc = 0, nd = d[t];
        if (t >= distance) {
            float factor = a[t] / b[t - distance];
            na = -a[t - distance] * factor;
            nb -= c[t - distance] * factor;
            nd -= d[t - distance] * factor;
        }
        if (t + distance < SIZE) {
            float factor = c[t] / b[t + distance];
            nc = -c[t + distance] * factor;
            nb -= a[t + distance] * factor;
            nd -= d[t + distance] * factor;
        }
        __syncthreads();
        a[t] = na;
        b[t] = nb;
        c[t] = nc;
        d[t] = nd;
        __syncthreads();
    }
    x[at] = d[t] / b[t];
}
