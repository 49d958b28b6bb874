__global__ void split(int *out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = 0;
        __syncthreads();
    } else {
        out[threadIdx.x] = 1;
        __syncthreads();
    }
}

int main() {
    int *out;
    cudaMalloc(&out, 32 * sizeof(int));
    split<<<1, 32>>>(out);
    cudaFree(out);
}
