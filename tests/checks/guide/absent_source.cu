__global__ void sum(int *out) {
    int value = threadIdx.x;
    if (threadIdx.x < 16) {
        value += __shfl_down_sync(0xffff, value, 8);
        out[threadIdx.x] = value;
    }
}

int main() {
    int *out;
    cudaMalloc(&out, 16 * sizeof(int));
    sum<<<1, 32>>>(out);
    cudaFree(out);
}
