// One pass of a radix sort with digits of four bits: counts the digits of each block, computes prefix sums of the
// counts, and scatters the keys. Ranks within a warp are computed with ballots, which preserve the order of equal
// digits.
// nvcc -ptx -arch=compute_75 -O3 radix_sort.cu -o radix_sort.ptx

constexpr int THREADS = 256, WARPS = THREADS / 32, DIGITS = 16, TURNS = 8;

extern "C" __global__ void radix_count(const unsigned *in, unsigned *counts, int n, int shift) {
    __shared__ unsigned bins[DIGITS];
    if (threadIdx.x < DIGITS)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int turn = 0; turn < TURNS; ++turn) {
        int i = (blockIdx.x * TURNS + turn) * THREADS + threadIdx.x;
        if (i < n)
            atomicAdd(&bins[in[i] >> shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// Computes exclusive prefix sums of all counts in place, with one block.
extern "C" __global__ void radix_sums(unsigned *counts, int n) {
    __shared__ unsigned sums[THREADS];
    int t = threadIdx.x, each = (n + THREADS - 1) / THREADS, first = t * each, end = min(first + each, n);
    unsigned own = 0;
    for (int i = first; i < end; ++i)
        own += counts[i];
    sums[t] = own;
    __syncthreads();
    for (int offset = 1; offset < THREADS; offset *= 2) {
        unsigned before = t >= offset ? sums[t - offset] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    unsigned sum = sums[t] - own;
    for (int i = first; i < end; ++i) {
        unsigned count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

extern "C" __global__ void radix_scatter(const unsigned *in, unsigned *out, const unsigned *sums, int n, int shift) {
    __shared__ unsigned next[DIGITS], of_warps[WARPS][DIGITS];
    unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t < DIGITS)
        next[t] = sums[t * gridDim.x + blockIdx.x];
    for (int turn = 0; turn < TURNS; ++turn) {
        int i = (blockIdx.x * TURNS + turn) * THREADS + t;
        bool used = i < n;
        unsigned key = used ? in[i] : 0, digit = key >> shift & (DIGITS - 1);
        unsigned same = __ballot_sync(0xffffffffu, used);
        for (int bit = 0; bit < 4; ++bit) {
            unsigned set = __ballot_sync(0xffffffffu, digit >> bit & 1);
            same &= digit >> bit & 1 ? set : ~set;
        }
        unsigned rank = __popc(same & ((1u << lane) - 1));
        if (t < WARPS * DIGITS)
            of_warps[t / DIGITS][t % DIGITS] = 0;
        __syncthreads();
        if (used && rank == 0)
            of_warps[warp][digit] = __popc(same);
        __syncthreads();
        if (used) {
            unsigned to = next[digit] + rank;
            for (int before = 0; before < warp; ++before)
                to += of_warps[before][digit];
            out[to] = key;
        }
        __syncthreads();
        if (t < DIGITS)
            for (int w = 0; w < WARPS; ++w)
                next[t] += of_warps[w][t];
        __syncthreads();
    }
}
