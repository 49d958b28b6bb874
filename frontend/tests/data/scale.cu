// Source of the images in this folder; make.sh says how each was built.
__device__ float factor = 2.0f;

__global__ void scale(float *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] *= factor;
}

__global__ void fill(float *values, float value, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = value;
}
