// Sums of 256 values with a tree in shared memory, and of 32 values with shuffles. No loop precedes the reduction, so
// that only the reduction is measured.
// nvcc -ptx -arch=compute_75 -O3 block_sums.cu -o block_sums.ptx

constexpr int THREADS = 256;

extern "C" __global__ void block_sums(const int *in, int *out, int n) {
    __shared__ int part[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    part[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

extern "C" __global__ void warp_sums(const int *in, int *out, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    int sum = i < n ? in[i] : 0;
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (i < n && threadIdx.x % 32 == 0)
        out[i / 32] = sum;
}
