// Transposes a matrix through a padded tile in local memory. A work-group has 8 rows of work-items, so each work-item
// copies several elements of the tile.
#define TILE 32
#define ROWS 8

kernel void transpose_tiled(global const float *in, global float *out, int width, int height) {
    local float tile[TILE][TILE + 1];
    int tx = get_local_id(0), ty = get_local_id(1);
    int x = get_group_id(0) * TILE + tx, y = get_group_id(1) * TILE + ty;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < width && y + row < height)
            tile[ty + row][tx] = in[(y + row) * width + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * TILE + tx;
    y = get_group_id(0) * TILE + ty;
    for (int row = 0; row < TILE; row += ROWS)
        if (x < height && y + row < width)
            out[(y + row) * height + x] = tile[tx][ty + row];
}
