// C = A B for half-precision A and B and single-precision C. The first kernel uses tiles in shared memory. The second
// kernel uses matrix instructions: each warp computes a tile of 16 x 16, and all extents must be multiples of 16.
// nvcc -ptx -arch=compute_75 -O3 gemm_half.cu -o gemm_half.ptx

#include <cuda_fp16.h>
#include <mma.h>

constexpr int TILE = 16;

extern "C" __global__ void gemm_half(const __half *a, const __half *b, float *c, int rows, int inner, int columns) {
    __shared__ __half tile_a[TILE][TILE];
    __shared__ __half tile_b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;
    __half zero = __float2half(0.0f);
    float sum = 0.0f;
    for (int base = 0; base < inner; base += TILE) {
        tile_a[ty][tx] = row < rows && base + tx < inner ? a[row * inner + base + tx] : zero;
        tile_b[ty][tx] = column < columns && base + ty < inner ? b[(base + ty) * columns + column] : zero;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += __half2float(tile_a[ty][k]) * __half2float(tile_b[k][tx]);
        __syncthreads();
    }
    if (row < rows && column < columns)
        c[row * columns + column] = sum;
}

extern "C" __global__ void gemm_matrix(const __half *a, const __half *b, float *c, int rows, int inner, int columns) {
    using namespace nvcuda::wmma;
    int row = blockIdx.y * TILE, column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * TILE;
    if (row >= rows || column >= columns)
        return;
    fragment<matrix_a, TILE, TILE, TILE, __half, row_major> from_a;
    fragment<matrix_b, TILE, TILE, TILE, __half, row_major> from_b;
    fragment<accumulator, TILE, TILE, TILE, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k = 0; k < inner; k += TILE) {
        load_matrix_sync(from_a, a + row * inner + k, inner);
        load_matrix_sync(from_b, b + k * columns + column, columns);
        mma_sync(sum, from_a, from_b, sum);
    }
    store_matrix_sync(c + row * columns + column, sum, columns, mem_row_major);
}
