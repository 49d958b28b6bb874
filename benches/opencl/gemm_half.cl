// C = A B for half-precision A and B and single-precision C, with tiles of floats in local memory, because OpenCL 1.2
// has no half-precision arithmetic. The second kernel divides the work like the CUDA kernel with matrix instructions:
// 32 work-items for a tile of 16 x 16.
#define TILE 16

kernel void gemm_half(global const half *a, global const half *b, global float *c, int rows, int inner, int columns) {
    local float tile_a[TILE][TILE];
    local float tile_b[TILE][TILE];
    int tx = get_local_id(0), ty = get_local_id(1), column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (int base = 0; base < inner; base += TILE) {
        tile_a[ty][tx] = row < rows && base + tx < inner ? vload_half(row * inner + base + tx, a) : 0.0f;
        tile_b[ty][tx] = column < columns && base + ty < inner ? vload_half((base + ty) * columns + column, b) : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[ty][k] * tile_b[k][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < rows && column < columns)
        c[row * columns + column] = sum;
}

kernel void gemm_matrix(global const half *a, global const half *b, global float *c, int rows, int inner, int columns) {
    int lane = get_local_id(0) % 32, top = get_group_id(1) * TILE;
    int left = (get_group_id(0) * (get_local_size(0) / 32) + get_local_id(0) / 32) * TILE;
    int column = left + lane % TILE, first = top + lane / TILE * 8;
    if (top >= rows || left >= columns)
        return;
    float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int k = 0; k < inner; ++k) {
        float from_b = vload_half(k * columns + column, b);
#pragma unroll
        for (int r = 0; r < 8; ++r)
            sums[r] += vload_half((first + r) * inner + k, a) * from_b;
    }
    for (int r = 0; r < 8; ++r)
        c[(first + r) * columns + column] = sums[r];
}
