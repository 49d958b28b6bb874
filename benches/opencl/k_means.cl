// A step of k-means with 16 centres in four dimensions. OpenCL 1.2 has no atomic additions of floats, so the sums of a
// work-group are integers; the coordinates are integers too.
#define CENTRES 16
#define DIMENSIONS 4
#define SUMS (CENTRES * (DIMENSIONS + 1))

kernel void k_means_assign(global const float *points, global const float *centres, global int *labels,
                           global float *sums, int n) {
    local float near[CENTRES * DIMENSIONS];
    local int own[SUMS];
    int t = get_local_id(0), size = get_local_size(0);
    for (int i = t; i < CENTRES * DIMENSIONS; i += size)
        near[i] = centres[i];
    for (int i = t; i < SUMS; i += size)
        own[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        float point[DIMENSIONS], least = INFINITY;
        for (int d = 0; d < DIMENSIONS; ++d)
            point[d] = points[d * n + i];
        int label = 0;
        for (int c = 0; c < CENTRES; ++c) {
            float distance = 0;
            for (int d = 0; d < DIMENSIONS; ++d) {
                float away = point[d] - near[c * DIMENSIONS + d];
                distance += away * away;
            }
            if (distance < least) {
                least = distance;
                label = c;
            }
        }
        labels[i] = label;
        for (int d = 0; d < DIMENSIONS; ++d)
            atomic_add(&own[label * (DIMENSIONS + 1) + d], (int)point[d]);
        atomic_inc(&own[label * (DIMENSIONS + 1) + DIMENSIONS]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = t; i < SUMS; i += size)
        sums[get_group_id(0) * SUMS + i] = own[i];
}

kernel void k_means_move(global const float *sums, global float *moved, int blocks) {
    int t = get_local_id(0), c = t / DIMENSIONS, d = t % DIMENSIONS;
    float sum = 0, count = 0;
    for (int block = 0; block < blocks; ++block) {
        sum += sums[block * SUMS + c * (DIMENSIONS + 1) + d];
        count += sums[block * SUMS + c * (DIMENSIONS + 1) + DIMENSIONS];
    }
    moved[t] = sum / count;
}
