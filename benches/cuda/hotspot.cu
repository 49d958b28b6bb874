// Two time steps of the temperature of a chip. A block reads a tile with a halo of two points into shared memory. A
// neighbour outside the chip has the temperature of the nearest point.
// nvcc -ptx -arch=compute_75 -O3 hotspot.cu -o hotspot.ptx

constexpr int EDGE = 16, HALO = 2, INNER = EDGE - 2 * HALO;

extern "C" __global__ void hotspot(const float *in, const float *power, float *out, int width, int height) {
    __shared__ float tiles[2][EDGE][EDGE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * INNER + tx - HALO, y = blockIdx.y * INNER + ty - HALO;
    bool inside = x >= 0 && y >= 0 && x < width && y < height;
    float watts = 0;
    if (inside) {
        tiles[0][ty][tx] = in[y * width + x];
        watts = power[y * width + x];
    }
    __syncthreads();
    int left = x > 0 ? tx - 1 : tx, right = x < width - 1 ? tx + 1 : tx;
    int above = y > 0 ? ty - 1 : ty, below = y < height - 1 ? ty + 1 : ty;
    for (int step = 0; step < HALO; ++step) {
        bool known = tx > step && ty > step && tx < EDGE - 1 - step && ty < EDGE - 1 - step;
        if (inside && known) {
            float (*tile)[EDGE] = tiles[step], here = tile[ty][tx];
            tiles[1 - step][ty][tx] = here + 0.5f * watts + 0.1f * (tile[ty][left] + tile[ty][right] - 2 * here) +
                                      0.125f * (tile[above][tx] + tile[below][tx] - 2 * here) + 0.01f * (80 - here);
        }
        __syncthreads();
    }
    bool inner = tx >= HALO && ty >= HALO && tx < EDGE - HALO && ty < EDGE - HALO;
    if (inside && inner)
        out[y * width + x] = tiles[0][ty][tx];
}
