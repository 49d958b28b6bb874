// Softmax and layer normalisation. A block computes each row, and computes sums and maxima with shuffles and shared
// memory.
// nvcc -ptx -arch=compute_75 -O3 rows.cu -o rows.ptx

constexpr int THREADS = 256, WARPS = THREADS / 32;

template <class Join> __device__ float of_block(float value, float neutral, Join join) {
    __shared__ float parts[WARPS];
    for (int mask = 16; mask > 0; mask /= 2)
        value = join(value, __shfl_xor_sync(0xffffffffu, value, mask));
    __syncthreads(); // all threads have read the previous result
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = neutral;
    for (int warp = 0; warp < WARPS; ++warp)
        value = join(value, parts[warp]);
    return value;
}

__device__ float sum_of_block(float value) {
    return of_block(value, 0.0f, [](float a, float b) { return a + b; });
}

__device__ float maximum_of_block(float value) {
    return of_block(value, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

extern "C" __global__ void softmax(const float *in, float *out, int columns) {
    const float *row = in + blockIdx.x * columns;
    float *to = out + blockIdx.x * columns;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        most = fmaxf(most, row[i]);
    most = maximum_of_block(most);
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        sum += expf(row[i] - most);
    float scale = 1.0f / sum_of_block(sum);
    for (int i = threadIdx.x; i < columns; i += THREADS)
        to[i] = expf(row[i] - most) * scale;
}

extern "C" __global__ void layer_norm(const float *in, const float *gain, const float *bias, float *out, int columns) {
    const float *row = in + blockIdx.x * columns;
    float *to = out + blockIdx.x * columns;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        sum += row[i];
    float mean = sum_of_block(sum) / columns;
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(sum_of_block(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += THREADS)
        to[i] = (row[i] - mean) * scale * gain[i] + bias[i];
}
