// Estimates pi from random points: each thread has a generator, and each block computes a sum and adds it with one
// atomic. The CPU draws the same numbers, so the counts are equal.
#include "common.h"

constexpr int THREADS = 128, DRAWS = 64;

__host__ __device__ inline uint32_t draw(uint64_t &state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t mixed = uint32_t(((state >> 18) ^ state) >> 27);
    int turn = int(state >> 59);
    return (mixed >> turn) | (mixed << ((32 - turn) & 31));
}

__host__ __device__ inline unsigned hits(uint32_t thread) {
    uint64_t state = 0x853c49e6748fea9bull + thread * 0x9e3779b97f4a7c15ull;
    unsigned inside = 0;
    for (int i = 0; i < DRAWS; ++i) {
        uint64_t x = draw(state) >> 8, y = draw(state) >> 8;
        inside += x * x + y * y < (1ull << 48);
    }
    return inside;
}

extern "C" __global__ void monte_carlo_pi(unsigned long long *total, unsigned *by_thread) {
    __shared__ unsigned sum;
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    unsigned mine = hits(thread);
    by_thread[thread] = mine;
    atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(total, (unsigned long long)sum);
}

int main() {
    const int blocks = 12;
    std::vector<unsigned> want(blocks * THREADS);
    unsigned long long total = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        want[i] = hits(uint32_t(i));
        total += want[i];
    }
    Buffer<unsigned> by_thread(want.size());
    Buffer<unsigned long long> sum(1);
    sum.clear();
    monte_carlo_pi<<<blocks, THREADS>>>(sum.ptr(), by_thread.ptr());
    LAUNCH_OK();

    Verdict verdict("monte_carlo_pi");
    verdict.equal("hits", by_thread.get(), want);
    verdict.equal("total", sum.get()[0], total);
    double pi = 4.0 * double(sum.get()[0]) / (double(want.size()) * DRAWS);
    verdict.holds("3.1 < pi < 3.2", pi > 3.1 && pi < 3.2);
    return verdict.finish();
}
