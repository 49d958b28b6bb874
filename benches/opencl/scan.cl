// Exclusive prefix sums: Blelloch's tree in local memory. The sums of whole blocks are stored in `totals`.
#define THREADS 128

kernel void scan_blelloch(global const uint *in, global uint *out, global uint *totals, int n) {
    local uint tree[2 * THREADS];
    uint t = get_local_id(0), threads = get_local_size(0), width = 2 * threads;
    uint first = get_group_id(0) * width + t, second = first + threads;
    tree[t] = first < n ? in[first] : 0;
    tree[t + threads] = second < n ? in[second] : 0;
    uint offset = 1;
    for (uint active = threads; active > 0; active /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < active)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) {
        totals[get_group_id(0)] = tree[width - 1];
        tree[width - 1] = 0;
    }
    for (uint active = 1; active < width; active *= 2) {
        offset /= 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < active) {
            uint left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            uint value = tree[left];
            tree[left] = tree[right];
            tree[right] += value;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first < n)
        out[first] = tree[t];
    if (second < n)
        out[second] = tree[t + threads];
}

kernel void add_totals(global uint *out, global const uint *totals, int n) {
    uint i = get_group_id(0) * 2 * THREADS + get_local_id(0);
    if (i < n)
        out[i] += totals[get_group_id(0)];
    if (i + THREADS < n)
        out[i + THREADS] += totals[get_group_id(0)];
}
