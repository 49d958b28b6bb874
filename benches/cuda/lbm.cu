// A time step of a lattice Boltzmann method (D2Q9) on a periodic grid. Each thread collects the densities that move to
// its point and relaxes them. The nine densities are in nine planes.
// nvcc -ptx -arch=compute_75 -O3 lbm.cu -o lbm.ptx

extern "C" __global__ void lbm_step(const float *f, float *g, int width, int height, float omega) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const float weights[9] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                              1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
    int n = width * height, here = y * width + x;
    float moved[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
    for (int i = 0; i < 9; ++i) {
        int fx = x - cx[i], fy = y - cy[i];
        fx = fx < 0 ? width - 1 : fx == width ? 0 : fx;
        fy = fy < 0 ? height - 1 : fy == height ? 0 : fy;
        moved[i] = f[i * n + fy * width + fx];
        rho += moved[i];
        ux += cx[i] * moved[i];
        uy += cy[i] * moved[i];
    }
    ux /= rho;
    uy /= rho;
#pragma unroll
    for (int i = 0; i < 9; ++i) {
        float along = 3 * (cx[i] * ux + cy[i] * uy);
        float rest = weights[i] * rho * (1 + along + 0.5f * along * along - 1.5f * (ux * ux + uy * uy));
        g[i * n + here] = moved[i] + omega * (rest - moved[i]);
    }
}
