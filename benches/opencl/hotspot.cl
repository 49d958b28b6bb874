// Two time steps of the temperature of a chip, in tiles with a halo of two points in local memory.
#define EDGE 16
#define HALO 2
#define INNER (EDGE - 2 * HALO)

kernel void hotspot(global const float *in, global const float *power, global float *out, int width, int height) {
    local float tiles[2][EDGE][EDGE];
    int tx = get_local_id(0), ty = get_local_id(1);
    int x = (int)get_group_id(0) * INNER + tx - HALO, y = (int)get_group_id(1) * INNER + ty - HALO;
    bool inside = x >= 0 && y >= 0 && x < width && y < height;
    float watts = 0;
    if (inside) {
        tiles[0][ty][tx] = in[y * width + x];
        watts = power[y * width + x];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int left = x > 0 ? tx - 1 : tx, right = x < width - 1 ? tx + 1 : tx;
    int above = y > 0 ? ty - 1 : ty, below = y < height - 1 ? ty + 1 : ty;
    for (int step = 0; step < HALO; ++step) {
        bool known = tx > step && ty > step && tx < EDGE - 1 - step && ty < EDGE - 1 - step;
        if (inside && known) {
            local float (*tile)[EDGE] = tiles[step];
            float here = tile[ty][tx];
            tiles[1 - step][ty][tx] = here + 0.5f * watts + 0.1f * (tile[ty][left] + tile[ty][right] - 2 * here) +
                                      0.125f * (tile[above][tx] + tile[below][tx] - 2 * here) + 0.01f * (80 - here);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    bool inner = tx >= HALO && ty >= HALO && tx < EDGE - HALO && ty < EDGE - HALO;
    if (inside && inner)
        out[y * width + x] = tiles[0][ty][tx];
}
