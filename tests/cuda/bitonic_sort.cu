// Bitonic sort: steps with short distances use shared memory, steps with long distances use global memory.
#include "common.h"

#include <algorithm>

constexpr int THREADS = 128, CHUNK = 2 * THREADS;

__device__ void order(unsigned &a, unsigned &b, bool ascending) {
    if ((a > b) == ascending) {
        unsigned swap = a;
        a = b;
        b = swap;
    }
}

// Executes the steps whose distance is within a block's CHUNK values, for sequences of `first` to `last` values.
extern "C" __global__ void bitonic_shared(unsigned *data, unsigned first, unsigned last) {
    __shared__ unsigned chunk[CHUNK];
    unsigned base = blockIdx.x * CHUNK, t = threadIdx.x;
    chunk[t] = data[base + t];
    chunk[t + THREADS] = data[base + t + THREADS];
    for (unsigned size = first; size <= last; size *= 2) {
        for (unsigned stride = min(size, unsigned(CHUNK)) / 2; stride > 0; stride /= 2) {
            __syncthreads();
            unsigned low = 2 * t - (t & (stride - 1));
            order(chunk[low], chunk[low + stride], ((base + low) & size) == 0);
        }
    }
    __syncthreads();
    data[base + t] = chunk[t];
    data[base + t + THREADS] = chunk[t + THREADS];
}

// Executes one step whose distance is larger than a block's values.
extern "C" __global__ void bitonic_global(unsigned *data, unsigned size, unsigned stride) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned low = 2 * t - (t & (stride - 1));
    unsigned a = data[low], b = data[low + stride];
    order(a, b, (low & size) == 0);
    data[low] = a;
    data[low + stride] = b;
}

int main() {
    const unsigned n = 2048;
    std::vector<unsigned> keys(n);
    Random random(7);
    for (unsigned &key : keys)
        key = random.next() >> 8;
    Buffer<unsigned> data(keys);
    std::sort(keys.begin(), keys.end());

    bitonic_shared<<<n / CHUNK, THREADS>>>(data.ptr(), 2, CHUNK);
    for (unsigned size = 2 * CHUNK; size <= n; size *= 2) {
        for (unsigned stride = size / 2; stride >= CHUNK; stride /= 2)
            bitonic_global<<<n / CHUNK, THREADS>>>(data.ptr(), size, stride);
        bitonic_shared<<<n / CHUNK, THREADS>>>(data.ptr(), size, size);
    }
    LAUNCH_OK();

    Verdict verdict("bitonic_sort");
    verdict.equal("keys", data.get(), keys);
    return verdict.finish();
}
