// The kernel of examples/smooth.rs. This command writes its PTX, which is stored in this folder:
//
//     nvcc -ptx -arch=compute_80 smooth.cu -o smooth.ptx

// Passed by value: 24 bytes in the kernel's parameter space.
struct Filter {
    int n;
    float weights[3];
    double scale;
};

constexpr int BLOCK = 128;

// out[i] = scale * (w0 * in[i-1] + w1 * in[i] + w2 * in[i+1]), with zeros outside of the array.
extern "C" __global__ void smooth(const float *in, float *out, Filter filter)
{
    __shared__ float tile[BLOCK + 2];
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    tile[threadIdx.x + 1] = i < filter.n ? in[i] : 0.0f;
    if (threadIdx.x == 0) {
        tile[0] = i > 0 ? in[i - 1] : 0.0f;
        tile[BLOCK + 1] = i + BLOCK < filter.n ? in[i + BLOCK] : 0.0f;
    }
    __syncthreads();
    if (i < filter.n) {
        float sum = 0.0f;
        for (int k = 0; k < 3; k++) {
            sum += filter.weights[k] * tile[threadIdx.x + k];
        }
        out[i] = (float)(filter.scale * sum);
    }
}
