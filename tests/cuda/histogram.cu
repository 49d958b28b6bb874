// Counts bytes: one kernel with atomics on global memory, the other with atomics on shared memory first.
#include "common.h"

constexpr int BINS = 256;

extern "C" __global__ void histogram_global(const unsigned char *in, unsigned *bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i]], 1u);
}

extern "C" __global__ void histogram_shared(const unsigned char *in, unsigned *bins, int n) {
    __shared__ unsigned local[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        local[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        if (local[bin] != 0)
            atomicAdd(&bins[bin], local[bin]);
}

int main() {
    const int n = 30001;
    std::vector<unsigned char> in(n);
    std::vector<unsigned> want(BINS, 0);
    Random random(6);
    for (unsigned char &value : in) {
        value = (unsigned char)(random.below(256) & random.below(256));
        ++want[value];
    }
    Buffer<unsigned char> din(in);
    Buffer<unsigned> global(BINS), shared(BINS);
    global.clear();
    shared.clear();
    histogram_global<<<6, 192>>>(din.ptr(), global.ptr(), n);
    histogram_shared<<<6, 192>>>(din.ptr(), shared.ptr(), n);
    LAUNCH_OK();

    Verdict verdict("histogram");
    verdict.equal("global", global.get(), want);
    verdict.equal("shared", shared.get(), want);
    return verdict.finish();
}
