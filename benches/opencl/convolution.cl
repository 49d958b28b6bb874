// The convolution of an image with 5 x 5 weights, with a tile and a border of two points in local memory; values
// outside of the image are zero.
#define EDGE 16
#define REACH 2
#define SIDE (EDGE + 2 * REACH)
#define WIDTH (2 * REACH + 1)

kernel void convolve(global const float *in, constant float *weights, global float *out, int width, int height) {
    local float tile[SIDE][SIDE];
    int tx = get_local_id(0), ty = get_local_id(1);
    int left = get_group_id(0) * EDGE - REACH, top = get_group_id(1) * EDGE - REACH;
    for (int i = ty * EDGE + tx; i < SIDE * SIDE; i += EDGE * EDGE) {
        int x = left + i % SIDE, y = top + i / SIDE;
        bool inside = x >= 0 && y >= 0 && x < width && y < height;
        tile[i / SIDE][i % SIDE] = inside ? in[y * width + x] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float sum = 0;
#pragma unroll
    for (int dy = 0; dy < WIDTH; ++dy)
#pragma unroll
        for (int dx = 0; dx < WIDTH; ++dx)
            sum += weights[dy * WIDTH + dx] * tile[ty + dy][tx + dx];
    out[y * width + x] = sum;
}
