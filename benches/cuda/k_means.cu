// A step of k-means with 16 centres in four dimensions. Each block sums the points of each centre with atomics on
// shared memory.
// nvcc -ptx -arch=compute_75 -O3 k_means.cu -o k_means.ptx

constexpr int CENTRES = 16, DIMENSIONS = 4, SUMS = CENTRES * (DIMENSIONS + 1);

extern "C" __global__ void k_means_assign(const float *points, const float *centres, int *labels, float *sums, int n) {
    __shared__ float near[CENTRES * DIMENSIONS], own[SUMS];
    for (int i = threadIdx.x; i < CENTRES * DIMENSIONS; i += blockDim.x)
        near[i] = centres[i];
    for (int i = threadIdx.x; i < SUMS; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float point[DIMENSIONS], least = INFINITY;
        for (int d = 0; d < DIMENSIONS; ++d)
            point[d] = points[d * n + i];
        int label = 0;
        for (int c = 0; c < CENTRES; ++c) {
            float distance = 0;
            for (int d = 0; d < DIMENSIONS; ++d) {
                float away = point[d] - near[c * DIMENSIONS + d];
                distance += away * away;
            }
            if (distance < least) {
                least = distance;
                label = c;
            }
        }
        labels[i] = label;
        for (int d = 0; d < DIMENSIONS; ++d)
            atomicAdd(&own[label * (DIMENSIONS + 1) + d], point[d]);
        atomicAdd(&own[label * (DIMENSIONS + 1) + DIMENSIONS], 1.0f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS; i += blockDim.x)
        sums[blockIdx.x * SUMS + i] = own[i];
}

extern "C" __global__ void k_means_move(const float *sums, float *moved, int blocks) {
    int c = threadIdx.x / DIMENSIONS, d = threadIdx.x % DIMENSIONS;
    float sum = 0, count = 0;
    for (int block = 0; block < blocks; ++block) {
        sum += sums[block * SUMS + c * (DIMENSIONS + 1) + d];
        count += sums[block * SUMS + c * (DIMENSIONS + 1) + DIMENSIONS];
    }
    moved[threadIdx.x] = sum / count;
}
