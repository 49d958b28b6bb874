// z = a x + y. The result has its own array, so that every row of the grid can repeat the same computation.
// nvcc -ptx -arch=compute_75 -O3 saxpy_apart.cu -o saxpy_apart.ptx

extern "C" __global__ void saxpy_apart(int n, float a, const float *x, const float *y, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = fmaf(a, x[i], y[i]);
}
