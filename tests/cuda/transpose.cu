// Transposes a matrix: directly, and through a padded tile that 8 rows of threads fill.
#include "common.h"

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose_naive(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[x * height + y] = in[y * width + x];
}

extern "C" __global__ void transpose_tiled(const float *in, float *out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < width && y + row < height)
            tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < height && y + row < width)
            out[(y + row) * height + x] = tile[threadIdx.x][threadIdx.y + row];
}

int main() {
    const int width = 75, height = 101;
    std::vector<float> in(width * height), want(width * height);
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            in[y * width + x] = float(y * 1000 + x);
            want[x * height + y] = float(y * 1000 + x);
        }
    Buffer<float> din(in), naive(in.size()), tiled(in.size());
    transpose_naive<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(
        din.ptr(), naive.ptr(), width, height);
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
    transpose_tiled<<<grid, dim3(TILE, ROWS)>>>(din.ptr(), tiled.ptr(), width, height);
    LAUNCH_OK();

    Verdict verdict("transpose");
    verdict.equal("naive", naive.get(), want);
    verdict.equal("tiled", tiled.get(), want);
    return verdict.finish();
}
