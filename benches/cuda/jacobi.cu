// A sweep of Jacobi's method for Poisson's equation in three dimensions. Each block computes the largest change of its
// points in shared memory. A second kernel computes the largest change of all blocks.
// nvcc -ptx -arch=compute_75 -O3 jacobi.cu -o jacobi.ptx

constexpr int THREADS = 256;

__device__ float largest_of_block(float value) {
    __shared__ float values[THREADS];
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    values[t] = value;
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (t < stride)
            values[t] = fmaxf(values[t], values[t + stride]);
    }
    __syncthreads();
    return values[0];
}

extern "C" __global__ void jacobi_sweep(const float *u, const float *source, float *to, float *changes, int nx, int ny,
                                        int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    float change = 0;
    if (x < nx && y < ny && z < nz) {
        int plane = nx * ny, i = z * plane + y * nx + x;
        float value = u[i];
        if (x > 0 && y > 0 && z > 0 && x < nx - 1 && y < ny - 1 && z < nz - 1) {
            float around = u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane];
            value = (around - source[i]) * (1.0f / 6);
            change = fabsf(value - u[i]);
        }
        to[i] = value;
    }
    change = largest_of_block(change);
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        changes[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = change;
}

extern "C" __global__ void jacobi_change(const float *changes, float *largest, int count) {
    float change = 0;
    for (int i = threadIdx.x; i < count; i += THREADS)
        change = fmaxf(change, changes[i]);
    change = largest_of_block(change);
    if (threadIdx.x == 0)
        *largest = change;
}
