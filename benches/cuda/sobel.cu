// Sobel's edge detection: the magnitude of the gradient of a grey image. The border of the result is zero.
// nvcc -ptx -arch=compute_75 -O3 sobel.cu -o sobel.ptx

extern "C" __global__ void sobel(const unsigned char *in, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        out[i] = 0;
        return;
    }
    const unsigned char *above = in + i - width, *here = in + i, *below = in + i + width;
    int gx = above[1] - above[-1] + 2 * (here[1] - here[-1]) + below[1] - below[-1];
    int gy = below[-1] + 2 * below[0] + below[1] - above[-1] - 2 * above[0] - above[1];
    float magnitude = sqrtf(float(gx * gx + gy * gy));
    out[i] = (unsigned char)fminf(magnitude, 255.0f);
}
