// Sums of 256 values and of 32 values. Both kernels use trees in local memory, because OpenCL 1.2 has no shuffles.
#define THREADS 256

kernel void block_sums(global const int *in, global int *out, int n) {
    local int part[THREADS];
    int t = get_local_id(0), i = get_group_id(0) * THREADS + t;
    part[t] = i < n ? in[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int active = THREADS / 2; active > 0; active /= 2) {
        if (t < active)
            part[t] += part[t + active];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0)
        out[get_group_id(0)] = part[0];
}

kernel void warp_sums(global const int *in, global int *out, int n) {
    local int part[THREADS];
    int t = get_local_id(0), i = get_group_id(0) * THREADS + t;
    part[t] = i < n ? in[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int active = 16; active > 0; active /= 2) {
        if (t % 32 < active)
            part[t] += part[t + active];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < n && t % 32 == 0)
        out[i / 32] = part[t];
}
