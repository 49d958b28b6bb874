// Maxwell's equations in two dimensions (FDTD, TM mode): half a time step for each kernel.
// nvcc -ptx -arch=compute_75 -O3 fdtd.cu -o fdtd.ptx

extern "C" __global__ void fdtd_magnetic(const float *ez, float *hx, float *hy, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width - 1 || y >= height - 1)
        return;
    int i = y * width + x;
    hx[i] -= 0.5f * (ez[i + width] - ez[i]);
    hy[i] += 0.5f * (ez[i + 1] - ez[i]);
}

extern "C" __global__ void fdtd_electric(float *ez, const float *hx, const float *hy, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    int i = y * width + x;
    ez[i] += 0.5f * (hy[i] - hy[i - 1] - hx[i] + hx[i - width]);
}
