// One pass of a radix sort with digits of four bits. OpenCL 1.2 has no ballots, so each work-item reads the digits of
// its group of 32 work-items from local memory.
#define THREADS 256
#define WARPS (THREADS / 32)
#define DIGITS 16
#define TURNS 8

kernel void radix_count(global const uint *in, global uint *counts, int n, int shift) {
    local uint bins[DIGITS];
    int t = get_local_id(0);
    if (t < DIGITS)
        bins[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int turn = 0; turn < TURNS; ++turn) {
        int i = (get_group_id(0) * TURNS + turn) * THREADS + t;
        if (i < n)
            atomic_inc(&bins[in[i] >> shift & (DIGITS - 1)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < DIGITS)
        counts[t * get_num_groups(0) + get_group_id(0)] = bins[t];
}

kernel void radix_sums(global uint *counts, int n) {
    local uint sums[THREADS];
    int t = get_local_id(0), each = (n + THREADS - 1) / THREADS, first = t * each, end = min(first + each, n);
    uint own = 0;
    for (int i = first; i < end; ++i)
        own += counts[i];
    sums[t] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 1; offset < THREADS; offset *= 2) {
        uint before = t >= offset ? sums[t - offset] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[t] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    uint sum = sums[t] - own;
    for (int i = first; i < end; ++i) {
        uint count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

kernel void radix_scatter(global const uint *in, global uint *out, global const uint *sums, int n, int shift) {
    local uint next[DIGITS], of_warps[WARPS][DIGITS], digits[THREADS];
    uint t = get_local_id(0), warp = t / 32;
    if (t < DIGITS)
        next[t] = sums[t * get_num_groups(0) + get_group_id(0)];
    for (int turn = 0; turn < TURNS; ++turn) {
        int i = (get_group_id(0) * TURNS + turn) * THREADS + t;
        bool used = i < n;
        uint key = used ? in[i] : 0, digit = key >> shift & (DIGITS - 1);
        digits[t] = used ? digit : DIGITS;
        if (t < WARPS * DIGITS)
            of_warps[t / DIGITS][t % DIGITS] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint rank = 0;
        for (uint other = warp * 32; other < t; ++other)
            rank += digits[other] == digit;
        if (used)
            atomic_inc(&of_warps[warp][digit]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (used) {
            uint to = next[digit] + rank;
            for (uint before = 0; before < warp; ++before)
                to += of_warps[before][digit];
            out[to] = key;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < DIGITS)
            for (int w = 0; w < WARPS; ++w)
                next[t] += of_warps[w][t];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
