// A bilateral filter with 7 x 7 weights. A neighbour outside the image has the value of the nearest point of the image.
// nvcc -ptx -arch=compute_75 -O3 bilateral.cu -o bilateral.ptx

constexpr int RADIUS = 3, EDGE = 2 * RADIUS + 1;

extern "C" __global__ void bilateral(const float *in, float *out, const float *weights, int width, int height,
                                     float steepness) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float here = in[y * width + x], sum = 0, scale = 0;
    for (int dy = -RADIUS; dy <= RADIUS; ++dy)
        for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
            int nx = min(max(x + dx, 0), width - 1), ny = min(max(y + dy, 0), height - 1);
            float value = in[ny * width + nx], away = value - here;
            float weight = weights[(dy + RADIUS) * EDGE + dx + RADIUS] * expf(-steepness * away * away);
            sum += weight * value;
            scale += weight;
        }
    out[y * width + x] = sum / scale;
}
