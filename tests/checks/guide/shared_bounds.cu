__global__ void shift(int *out) {
    __shared__ int tile[32];
    tile[threadIdx.x + 1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = threadIdx.x ? tile[threadIdx.x] : 0;
}

int main() {
    int *out;
    cudaMalloc(&out, 32 * sizeof(int));
    shift<<<1, 32>>>(out);
    cudaFree(out);
}
