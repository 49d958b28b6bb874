__global__ void neighbour(int *out) {
    __shared__ volatile int tile[32];
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

int main() {
    int *out;
    cudaMalloc(&out, 32 * sizeof(int));
    neighbour<<<1, 32>>>(out);
    cudaFree(out);
}
