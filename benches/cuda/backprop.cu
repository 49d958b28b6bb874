// A layer of a neural network with 16 hidden units: the sums of the units, the units, and the weights after a step. A
// block of 16 x 16 threads adds the products of 16 inputs in shared memory.
// nvcc -ptx -arch=compute_75 -O3 backprop.cu -o backprop.ptx

constexpr int HIDDEN = 16, ROWS = 16;

extern "C" __global__ void layer_forward(const float *inputs, const float *weights, float *sums, int n) {
    __shared__ float in[ROWS], products[ROWS][HIDDEN];
    int j = threadIdx.x, row = threadIdx.y, i = blockIdx.x * ROWS + row;
    if (j == 0)
        in[row] = i < n ? inputs[i] : 0;
    __syncthreads();
    products[row][j] = i < n ? weights[i * HIDDEN + j] * in[row] : 0;
    for (int stride = 1; stride < ROWS; stride *= 2) {
        __syncthreads();
        if (row % (2 * stride) == 0)
            products[row][j] += products[row + stride][j];
    }
    __syncthreads();
    if (row == 0)
        sums[blockIdx.x * HIDDEN + j] = products[0][j];
}

extern "C" __global__ void layer_hidden(const float *sums, float *hidden, int blocks) {
    __shared__ float parts[ROWS][HIDDEN];
    int j = threadIdx.x, row = threadIdx.y;
    float sum = 0;
    for (int block = row; block < blocks; block += ROWS)
        sum += sums[block * HIDDEN + j];
    parts[row][j] = sum;
    for (int stride = ROWS / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (row < stride)
            parts[row][j] += parts[row + stride][j];
    }
    if (row == 0)
        hidden[j] = 1 / (1 + expf(-parts[0][j]));
}

extern "C" __global__ void layer_adjust(const float *inputs, const float *weights, const float *before,
                                        const float *targets, const float *hidden, float *to, int n, float rate,
                                        float momentum) {
    int j = threadIdx.x, i = blockIdx.x * ROWS + threadIdx.y;
    if (i >= n)
        return;
    float delta = hidden[j] * (1 - hidden[j]) * (targets[j] - hidden[j]);
    to[i * HIDDEN + j] = weights[i * HIDDEN + j] + rate * delta * inputs[i] + momentum * before[i * HIDDEN + j];
}
