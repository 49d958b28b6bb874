// A sweep of Jacobi's method for Poisson's equation in three dimensions, and the largest change of all points.
#define THREADS 256

static float largest_of_group(float value, int t, local float *values) {
    values[t] = value;
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < stride)
            values[t] = fmax(values[t], values[t + stride]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return values[0];
}

kernel void jacobi_sweep(global const float *u, global const float *source, global float *to, global float *changes,
                         int nx, int ny, int nz) {
    local float values[THREADS];
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    float change = 0;
    if (x < nx && y < ny && z < nz) {
        int plane = nx * ny, i = z * plane + y * nx + x;
        float value = u[i];
        if (x > 0 && y > 0 && z > 0 && x < nx - 1 && y < ny - 1 && z < nz - 1) {
            float around = u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane];
            value = (around - source[i]) * (1.0f / 6);
            change = fabs(value - u[i]);
        }
        to[i] = value;
    }
    int t = (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
    change = largest_of_group(change, t, values);
    if (t == 0)
        changes[(get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)] = change;
}

kernel void jacobi_change(global const float *changes, global float *largest, int count) {
    local float values[THREADS];
    int t = get_local_id(0);
    float change = 0;
    for (int i = t; i < count; i += THREADS)
        change = fmax(change, changes[i]);
    change = largest_of_group(change, t, values);
    if (t == 0)
        *largest = change;
}
