// z = a x + y.
kernel void saxpy_apart(int n, float a, global const float *x, global const float *y, global float *z) {
    int i = get_global_id(0);
    if (i < n)
        z[i] = fma(a, x[i], y[i]);
}
