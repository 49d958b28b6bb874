// A histogram of bytes: atomics on local memory, then on global memory.
#define BINS 256

kernel void histogram_shared(global const uchar *in, global uint *bins, int n) {
    local uint counts[BINS];
    for (int bin = get_local_id(0); bin < BINS; bin += get_local_size(0))
        counts[bin] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&counts[in[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int bin = get_local_id(0); bin < BINS; bin += get_local_size(0))
        if (counts[bin] != 0)
            atomic_add(&bins[bin], counts[bin]);
}
