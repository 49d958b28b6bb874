// Sums a vector of integers in seven ways.
#include "common.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

constexpr int THREADS = 256;

__device__ int load_sum(const int *in, int n) {
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    return sum;
}

// A tree in shared memory, with a barrier after every step.
extern "C" __global__ void reduce_tree(const int *in, int *out, int n) {
    __shared__ int part[THREADS];
    part[threadIdx.x] = load_sum(in, n);
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}

// Interleaved addressing with a branch on the thread's index modulo the stride.
extern "C" __global__ void reduce_interleaved(const int *in, int *out, int n) {
    __shared__ int part[THREADS];
    part[threadIdx.x] = load_sum(in, n);
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        if (threadIdx.x % (2 * stride) == 0)
            part[threadIdx.x] += part[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}

// A tree whose last steps run in one warp without barriers, on volatile shared memory.
extern "C" __global__ void reduce_volatile(const int *in, int *out, int n) {
    __shared__ int part[THREADS];
    unsigned t = threadIdx.x;
    part[t] = load_sum(in, n);
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 32; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    if (t < 32) {
        volatile int *warp = part;
        warp[t] += warp[t + 32];
        warp[t] += warp[t + 16];
        warp[t] += warp[t + 8];
        warp[t] += warp[t + 4];
        warp[t] += warp[t + 2];
        warp[t] += warp[t + 1];
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

// Shuffles within each warp. Then one warp sums the results of all warps.
extern "C" __global__ void reduce_shuffle(const int *in, int *out, int n) {
    __shared__ int warps[32];
    int sum = load_sum(in, n);
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0)
        warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warps[lane] : 0;
        for (int mask = 16; mask > 0; mask /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (lane == 0)
            out[blockIdx.x] = sum;
    }
}

__device__ unsigned int finished_blocks;

// A single launch. The last block to finish sums the results that all blocks stored.
extern "C" __global__ void reduce_last_block(const int *in, int *partial, int *out, int n) {
    __shared__ int part[THREADS];
    __shared__ bool last;
    part[threadIdx.x] = load_sum(in, n);
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = part[0];
        __threadfence();
        last = atomicInc(&finished_blocks, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i)
            sum += reinterpret_cast<volatile int *>(partial)[i];
        *out = sum;
    }
}

// Each warp adds its sum to one word with an atomic.
extern "C" __global__ void reduce_atomic(const int *in, int *out, int n) {
    int sum = load_sum(in, n);
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

// Cooperative groups: tiles of 16 threads.
extern "C" __global__ void reduce_groups(const int *in, int *out, int n) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    __shared__ int part;
    if (block.thread_rank() == 0)
        part = 0;
    block.sync();
    int sum = cg::reduce(tile, load_sum(in, n), cg::plus<int>());
    if (tile.thread_rank() == 0)
        atomicAdd(&part, sum);
    block.sync();
    if (block.thread_rank() == 0)
        out[blockIdx.x] = part;
}

int main() {
    const int n = 20011, blocks = 7;
    std::vector<int> in(n);
    Random random(4);
    int want = 0;
    for (int &value : in) {
        value = int(random.below(2001)) - 1000;
        want += value;
    }
    Buffer<int> din(in);
    Verdict verdict("reduction");

    auto two_stage = [&](const char *what, void (*kernel)(const int *, int *, int)) {
        Buffer<int> partial(blocks), out(1);
        kernel<<<blocks, THREADS>>>(din.ptr(), partial.ptr(), n);
        LAUNCH_OK();
        kernel<<<1, THREADS>>>(partial.ptr(), out.ptr(), blocks);
        LAUNCH_OK();
        verdict.equal(what, out.get()[0], want);
    };
    two_stage("tree", reduce_tree);
    two_stage("interleaved", reduce_interleaved);
    two_stage("volatile", reduce_volatile);
    two_stage("shuffle", reduce_shuffle);
    two_stage("groups", reduce_groups);

    Buffer<int> partial(blocks), last(1), atomic(1);
    for (int round = 0; round < 2; ++round) {
        reduce_last_block<<<blocks, THREADS>>>(din.ptr(), partial.ptr(), last.ptr(), n);
        LAUNCH_OK();
        verdict.equal("last block", last.get()[0], want);
    }
    atomic.clear();
    reduce_atomic<<<blocks, THREADS>>>(din.ptr(), atomic.ptr(), n);
    LAUNCH_OK();
    verdict.equal("atomic", atomic.get()[0], want);
    return verdict.finish();
}
