// C = A B with tiles in local memory.
#define TILE 16

kernel void matmul_tiled(global const float *a, global const float *b, global float *c, int rows, int inner, int columns) {
    local float tile_a[TILE][TILE];
    local float tile_b[TILE][TILE];
    int tx = get_local_id(0), ty = get_local_id(1);
    int column = get_group_id(0) * TILE + tx, row = get_group_id(1) * TILE + ty;
    float sum = 0.0f;
    for (int base = 0; base < inner; base += TILE) {
        int k_a = base + tx, k_b = base + ty;
        tile_a[ty][tx] = row < rows && k_a < inner ? a[row * inner + k_a] : 0.0f;
        tile_b[ty][tx] = column < columns && k_b < inner ? b[k_b * columns + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[ty][k] * tile_b[k][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < rows && column < columns)
        c[row * columns + column] = sum;
}
