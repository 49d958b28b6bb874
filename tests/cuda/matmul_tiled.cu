// Computes C = A * B through tiles in shared memory. No extent is a multiple of the tile's size. The values are small
// integers, so sums have the same bits in every order of addition.
#include "common.h"

constexpr int TILE = 16;

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int rows,
                                        int inner, int columns) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0.0f;
    for (int base = 0; base < inner; base += TILE) {
        int k_a = base + threadIdx.x;
        int k_b = base + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && k_a < inner ? a[row * inner + k_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] =
            column < columns && k_b < inner ? b[k_b * columns + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < columns)
        c[row * columns + column] = sum;
}

int main() {
    const int rows = 50, inner = 37, columns = 61;
    std::vector<float> a(rows * inner), b(inner * columns), want(rows * columns);
    Random random(3);
    for (float &value : a)
        value = float(random.below(17)) - 8.0f;
    for (float &value : b)
        value = float(random.below(17)) - 8.0f;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
            float sum = 0.0f;
            for (int k = 0; k < inner; ++k)
                sum += a[r * inner + k] * b[k * columns + c];
            want[r * columns + c] = sum;
        }
    Buffer<float> da(a), db(b), dc(want.size());
    dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    matmul_tiled<<<grid, dim3(TILE, TILE)>>>(da.ptr(), db.ptr(), dc.ptr(), rows, inner, columns);
    LAUNCH_OK();

    Verdict verdict("matmul_tiled");
    verdict.equal("c", dc.get(), want);
    return verdict.finish();
}
