// Tridiagonal systems of 256 equations each, solved by parallel cyclic reduction, one system for each work-group.
#define SIZE 256

kernel void cyclic_reduction(global const float *lower, global const float *diagonal, global const float *upper,
                             global const float *right, global float *x) {
    local float a[SIZE], b[SIZE], c[SIZE], d[SIZE];
    int t = get_local_id(0), at = get_group_id(0) * SIZE + t;
    a[t] = t > 0 ? lower[at] : 0;
    b[t] = diagonal[at];
    c[t] = t < SIZE - 1 ? upper[at] : 0;
    d[t] = right[at];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int distance = 1; distance < SIZE; distance *= 2) {
        float na = 0, nb = b[t], nc = 0, nd = d[t];
        if (t >= distance) {
            float factor = a[t] / b[t - distance];
            na = -a[t - distance] * factor;
            nb -= c[t - distance] * factor;
            nd -= d[t - distance] * factor;
        }
        if (t + distance < SIZE) {
            float factor = c[t] / b[t + distance];
            nc = -c[t + distance] * factor;
            nb -= a[t + distance] * factor;
            nd -= d[t + distance] * factor;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        a[t] = na;
        b[t] = nb;
        c[t] = nc;
        d[t] = nd;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    x[at] = d[t] / b[t];
}
