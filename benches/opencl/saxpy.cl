// y = a x + y with a grid-stride loop.
kernel void saxpy(int n, float a, global const float *x, global float *y) {
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        y[i] = fma(a, x[i], y[i]);
}
