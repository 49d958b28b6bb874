// Heat flow: a five-point stencil with a halo in local memory.
#define EDGE 16

static float at(global const float *in, int x, int y, int width, int height) {
    return in[clamp(y, 0, height - 1) * width + clamp(x, 0, width - 1)];
}

kernel void stencil_2d(global const float *in, global float *out, int width, int height) {
    local float tile[EDGE + 2][EDGE + 2];
    int lx = get_local_id(0), ly = get_local_id(1), tx = lx + 1, ty = ly + 1;
    int x = get_group_id(0) * EDGE + lx, y = get_group_id(1) * EDGE + ly;
    tile[ty][tx] = at(in, x, y, width, height);
    if (lx == 0)
        tile[ty][0] = at(in, x - 1, y, width, height);
    if (lx == EDGE - 1)
        tile[ty][EDGE + 1] = at(in, x + 1, y, width, height);
    if (ly == 0)
        tile[0][tx] = at(in, x, y - 1, width, height);
    if (ly == EDGE - 1)
        tile[EDGE + 1][tx] = at(in, x, y + 1, width, height);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (x >= width || y >= height)
        return;
    float right = x == width - 1 ? tile[ty][tx] : tile[ty][tx + 1];
    float below = y == height - 1 ? tile[ty][tx] : tile[ty + 1][tx];
    float around = tile[ty][tx - 1] + right + tile[ty - 1][tx] + below;
    out[y * width + x] = 0.5f * tile[ty][tx] + 0.125f * around;
}
