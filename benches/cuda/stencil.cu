// Heat flow: a five-point stencil that reads global memory directly. The border does not change.
// nvcc -ptx -arch=compute_75 -O3 stencil.cu -o stencil.ptx

extern "C" __global__ void stencil(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    int i = y * width + x;
    out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
}
