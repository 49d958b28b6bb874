// Computes prefix sums in three ways: Hillis-Steele in one block; Blelloch over several blocks, with a second level;
// and one pass with decoupled look-back, in which a block waits for the blocks before it.
#include "common.h"

constexpr int THREADS = 128;

// Inclusive scan of at most blockDim.x values, with two buffers that alternate.
extern "C" __global__ void scan_hillis_steele(const unsigned *in, unsigned *out, int n) {
    __shared__ unsigned buffer[2][THREADS];
    unsigned t = threadIdx.x;
    int from = 0;
    buffer[from][t] = t < n ? in[t] : 0;
    __syncthreads();
    for (unsigned offset = 1; offset < blockDim.x; offset *= 2) {
        int to = 1 - from;
        buffer[to][t] = buffer[from][t] + (t >= offset ? buffer[from][t - offset] : 0);
        from = to;
        __syncthreads();
    }
    if (t < n)
        out[t] = buffer[from][t];
}

// Exclusive scan of 2 * blockDim.x values in each block. Stores the sum of each block to `totals`.
extern "C" __global__ void scan_blelloch(const unsigned *in, unsigned *out, unsigned *totals,
                                         int n) {
    __shared__ unsigned tree[2 * THREADS];
    unsigned t = threadIdx.x, width = 2 * blockDim.x;
    unsigned first = blockIdx.x * width + t, second = first + blockDim.x;
    tree[t] = first < n ? in[first] : 0;
    tree[t + blockDim.x] = second < n ? in[second] : 0;
    unsigned offset = 1;
    for (unsigned active = blockDim.x; active > 0; active /= 2) {
        __syncthreads();
        if (t < active)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    __syncthreads();
    if (t == 0) {
        totals[blockIdx.x] = tree[width - 1];
        tree[width - 1] = 0;
    }
    for (unsigned active = 1; active < width; active *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < active) {
            unsigned left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            unsigned value = tree[left];
            tree[left] = tree[right];
            tree[right] += value;
        }
    }
    __syncthreads();
    if (first < n)
        out[first] = tree[t];
    if (second < n)
        out[second] = tree[t + blockDim.x];
}

extern "C" __global__ void add_totals(unsigned *out, const unsigned *totals, int n) {
    unsigned i = blockIdx.x * 2 * THREADS + threadIdx.x;
    if (i < n)
        out[i] += totals[blockIdx.x];
    if (i + THREADS < n)
        out[i + THREADS] += totals[blockIdx.x];
}

// The state of a tile has a flag in its upper half and a value in its lower half.
constexpr unsigned long long AGGREGATE = 1ull << 32, PREFIX = 2ull << 32;

__device__ unsigned next_tile;

// Inclusive scan in one pass. Tiles are numbered in the order in which blocks start, so a block waits only for tiles of
// blocks that have already started.
extern "C" __global__ void scan_look_back(const unsigned *in, unsigned *out,
                                          unsigned long long *states, int n) {
    __shared__ unsigned tile, exclusive;
    __shared__ unsigned sums[THREADS];
    unsigned t = threadIdx.x;
    if (t == 0)
        tile = atomicAdd(&next_tile, 1u);
    __syncthreads();
    unsigned i = tile * THREADS + t;
    sums[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned offset = 1; offset < THREADS; offset *= 2) {
        unsigned add = t >= offset ? sums[t - offset] : 0;
        __syncthreads();
        sums[t] += add;
        __syncthreads();
    }
    if (t == 0) {
        unsigned total = sums[THREADS - 1];
        volatile unsigned long long *state = states;
        unsigned before = 0;
        if (tile > 0) {
            atomicExch(&states[tile], AGGREGATE | total);
            for (int look = int(tile) - 1; look >= 0; --look) {
                unsigned long long seen;
                do {
                    seen = state[look];
                } while (seen < AGGREGATE);
                before += unsigned(seen);
                if (seen >= PREFIX)
                    break;
            }
        }
        __threadfence();
        atomicExch(&states[tile], PREFIX | (before + total));
        exclusive = before;
    }
    __syncthreads();
    if (i < n)
        out[i] = exclusive + sums[t];
}

int main() {
    const int n = 3333;
    std::vector<unsigned> in(n), inclusive(n), exclusive(n);
    Random random(5);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) {
        in[i] = random.below(1000);
        exclusive[i] = sum;
        sum += in[i];
        inclusive[i] = sum;
    }
    Buffer<unsigned> din(in);
    Verdict verdict("scan");

    Buffer<unsigned> small(100);
    scan_hillis_steele<<<1, THREADS>>>(din.ptr(), small.ptr(), 100);
    LAUNCH_OK();
    verdict.equal("hillis-steele", small.get(),
                  std::vector<unsigned>(inclusive.begin(), inclusive.begin() + 100));

    const int blocks = (n + 2 * THREADS - 1) / (2 * THREADS);
    Buffer<unsigned> out(n), totals(blocks), offsets(blocks), all(1);
    scan_blelloch<<<blocks, THREADS>>>(din.ptr(), out.ptr(), totals.ptr(), n);
    scan_blelloch<<<1, THREADS>>>(totals.ptr(), offsets.ptr(), all.ptr(), blocks);
    add_totals<<<blocks, THREADS>>>(out.ptr(), offsets.ptr(), n);
    LAUNCH_OK();
    verdict.equal("blelloch", out.get(), exclusive);
    verdict.equal("total", all.get()[0], sum);

    const int tiles = (n + THREADS - 1) / THREADS;
    Buffer<unsigned> single(n);
    Buffer<unsigned long long> states(tiles);
    states.clear();
    scan_look_back<<<tiles, THREADS>>>(din.ptr(), single.ptr(), states.ptr(), n);
    LAUNCH_OK();
    verdict.equal("look-back", single.get(), inclusive);
    return verdict.finish();
}
