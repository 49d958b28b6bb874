// A merge sort. Each work-group sorts 512 keys in local memory; each later pass merges pairs of sorted runs. OpenCL 1.2
// has no generic address space, so the functions exist for both kinds of memory.
#define KEYS 512

#define DEFINE(SPACE)                                                                                                  \
    static int before_##SPACE(SPACE const uint *keys, int count, uint key, bool equal) {                               \
        int low = 0;                                                                                                   \
        while (count > 0) {                                                                                            \
            int half_count = count / 2;                                                                                \
            uint other = keys[low + half_count];                                                                       \
            if (other < key || (equal && other == key)) {                                                              \
                low += half_count + 1;                                                                                 \
                count -= half_count + 1;                                                                               \
            } else {                                                                                                   \
                count = half_count;                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        return low;                                                                                                    \
    }                                                                                                                  \
    static int merged_place_##SPACE(SPACE const uint *keys, int i, int run, int n) {                                   \
        int own = i / run * run, first = own / (2 * run) * (2 * run);                                                  \
        bool right = own != first;                                                                                     \
        int other = right ? first : first + run, end = min(other + run, n);                                            \
        int rank = other < end ? before_##SPACE(keys + other, end - other, keys[i], right) : 0;                        \
        return first + (i - own) + rank;                                                                               \
    }

DEFINE(local)
DEFINE(global)

kernel void merge_sort_blocks(global const uint *in, global uint *out, int n) {
    local uint two[2][KEYS];
    int start = get_group_id(0) * KEYS, count = min(KEYS, n - start), t = get_local_id(0), size = get_local_size(0);
    for (int i = t; i < count; i += size)
        two[0][i] = in[start + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    int from = 0;
    for (int run = 1; run < KEYS; run *= 2) {
        for (int i = t; i < count; i += size)
            two[1 - from][merged_place_local(two[from], i, run, count)] = two[from][i];
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = t; i < count; i += size)
        out[start + i] = two[from][i];
}

kernel void merge_sort_pass(global const uint *in, global uint *out, int run, int n) {
    int i = get_global_id(0);
    if (i < n)
        out[merged_place_global(in, i, run, n)] = in[i];
}
