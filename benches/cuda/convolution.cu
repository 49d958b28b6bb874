// The convolution of an image with 5 x 5 weights, with a tile and a border of two points in shared memory; values
// outside of the image are zero.
// nvcc -ptx -arch=compute_75 -O3 convolution.cu -o convolution.ptx

constexpr int EDGE = 16, REACH = 2, SIDE = EDGE + 2 * REACH, WIDTH = 2 * REACH + 1;

extern "C" __global__ void convolve(const float *in, const float *__restrict__ weights, float *out, int width,
                                    int height) {
    __shared__ float tile[SIDE][SIDE];
    int left = blockIdx.x * EDGE - REACH, top = blockIdx.y * EDGE - REACH;
    for (int i = threadIdx.y * EDGE + threadIdx.x; i < SIDE * SIDE; i += EDGE * EDGE) {
        int x = left + i % SIDE, y = top + i / SIDE;
        bool inside = x >= 0 && y >= 0 && x < width && y < height;
        tile[i / SIDE][i % SIDE] = inside ? in[y * width + x] : 0.0f;
    }
    __syncthreads();
    int x = blockIdx.x * EDGE + threadIdx.x, y = blockIdx.y * EDGE + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0;
#pragma unroll
    for (int dy = 0; dy < WIDTH; ++dy)
#pragma unroll
        for (int dx = 0; dx < WIDTH; ++dx)
            sum += weights[dy * WIDTH + dx] * tile[threadIdx.y + dy][threadIdx.x + dx];
    out[y * width + x] = sum;
}
