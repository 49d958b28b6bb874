// Computes heat flow: a 5-point stencil in two dimensions with a halo in shared memory, and a 7-point stencil in three
// dimensions, in which each thread moves along z and keeps neighbouring values of its column in registers. The weights
// are powers of two and the initial values are small integers, so sums have the same bits in every order.
#include "common.h"

constexpr int EDGE = 16;

extern "C" __global__ void stencil_2d(const float *in, float *out, int width, int height) {
    __shared__ float tile[EDGE + 2][EDGE + 2];
    int x = blockIdx.x * EDGE + threadIdx.x, y = blockIdx.y * EDGE + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    auto at = [&](int px, int py) {
        px = min(max(px, 0), width - 1);
        py = min(max(py, 0), height - 1);
        return in[py * width + px];
    };
    tile[ty][tx] = at(x, y);
    if (threadIdx.x == 0)
        tile[ty][0] = at(x - 1, y);
    if (threadIdx.x == EDGE - 1)
        tile[ty][EDGE + 1] = at(x + 1, y);
    if (threadIdx.y == 0)
        tile[0][tx] = at(x, y - 1);
    if (threadIdx.y == EDGE - 1)
        tile[EDGE + 1][tx] = at(x, y + 1);
    __syncthreads();
    if (x >= width || y >= height)
        return;
    // If an extent is not a multiple of the tile's size, the last column or row is inside a tile.
    float right = x == width - 1 ? tile[ty][tx] : tile[ty][tx + 1];
    float below = y == height - 1 ? tile[ty][tx] : tile[ty + 1][tx];
    float around = tile[ty][tx - 1] + right + tile[ty - 1][tx] + below;
    out[y * width + x] = 0.5f * tile[ty][tx] + 0.125f * around;
}

extern "C" __global__ void stencil_3d(const float *in, float *out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny)
        return;
    int plane = nx * ny, i = y * nx + x;
    float behind = in[i], here = in[i];
    for (int z = 0; z < nz; ++z, i += plane) {
        float ahead = z + 1 < nz ? in[i + plane] : here;
        float west = x > 0 ? in[i - 1] : here, east = x + 1 < nx ? in[i + 1] : here;
        float north = y > 0 ? in[i - nx] : here, south = y + 1 < ny ? in[i + nx] : here;
        out[i] = 0.25f * here + 0.125f * (west + east + north + south + behind + ahead);
        behind = here;
        here = ahead;
    }
}

int main() {
    Verdict verdict("stencil");
    Random random(8);
    {
        const int width = 53, height = 39, steps = 4;
        std::vector<float> grid(width * height), next(grid.size());
        for (float &value : grid)
            value = float(random.below(256));
        Buffer<float> a(grid), b(grid.size());
        float *from = a.ptr(), *to = b.ptr();
        dim3 blocks((width + EDGE - 1) / EDGE, (height + EDGE - 1) / EDGE);
        for (int step = 0; step < steps; ++step) {
            stencil_2d<<<blocks, dim3(EDGE, EDGE)>>>(from, to, width, height);
            std::swap(from, to);
            for (int y = 0; y < height; ++y)
                for (int x = 0; x < width; ++x) {
                    auto at = [&](int px, int py) {
                        px = std::min(std::max(px, 0), width - 1);
                        py = std::min(std::max(py, 0), height - 1);
                        return grid[py * width + px];
                    };
                    next[y * width + x] =
                        0.5f * at(x, y) +
                        0.125f * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1));
                }
            std::swap(grid, next);
        }
        LAUNCH_OK();
        verdict.equal("2d", steps % 2 ? b.get() : a.get(), grid);
    }
    {
        const int nx = 19, ny = 13, nz = 11;
        std::vector<float> grid(nx * ny * nz), want(grid.size());
        for (float &value : grid)
            value = float(random.below(256));
        Buffer<float> in(grid), out(grid.size());
        stencil_3d<<<dim3(2, 2), dim3(16, 8)>>>(in.ptr(), out.ptr(), nx, ny, nz);
        LAUNCH_OK();
        for (int z = 0; z < nz; ++z)
            for (int y = 0; y < ny; ++y)
                for (int x = 0; x < nx; ++x) {
                    auto at = [&](int px, int py, int pz) {
                        px = std::min(std::max(px, 0), nx - 1);
                        py = std::min(std::max(py, 0), ny - 1);
                        pz = std::min(std::max(pz, 0), nz - 1);
                        return grid[(pz * ny + py) * nx + px];
                    };
                    want[(z * ny + y) * nx + x] =
                        0.25f * at(x, y, z) +
                        0.125f * (at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) +
                                  at(x, y + 1, z) + at(x, y, z - 1) + at(x, y, z + 1));
                }
        verdict.equal("3d", out.get(), want);
    }
    return verdict.finish();
}
