// A sum with a tree in local memory, and a sum in groups of 32. OpenCL 1.2 has no shuffles, so a group of 32 work-items
// adds its values in local memory, with a barrier after each step, as is usual in OpenCL programs.
#define THREADS 256

static int load_sum(global const int *in, int n) {
    int sum = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += in[i];
    return sum;
}

kernel void reduce_tree(global const int *in, global int *out, int n) {
    local int part[THREADS];
    int t = get_local_id(0);
    part[t] = load_sum(in, n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_ = get_local_size(0) / 2; half_ > 0; half_ /= 2) {
        if (t < half_)
            part[t] += part[t + half_];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0)
        out[get_group_id(0)] = part[0];
}

kernel void reduce_shuffle(global const int *in, global int *out, int n) {
    local int part[THREADS];
    local int warps[32];
    int t = get_local_id(0), lane = t % 32, warp = t / 32;
    part[t] = load_sum(in, n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int offset = 16; offset > 0; offset /= 2) {
        if (lane < offset)
            part[t] += part[t + offset];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0)
        warps[warp] = part[t];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) {
        int sum = 0;
        for (int i = 0; i < get_local_size(0) / 32; ++i)
            sum += warps[i];
        out[get_group_id(0)] = sum;
    }
}
