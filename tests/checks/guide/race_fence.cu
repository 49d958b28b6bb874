__global__ void pass(int *data, int *flag) {
    if (blockIdx.x == 0) {
        *data = 42;
        atomicExch(flag, 1);
    } else if (atomicAdd(flag, 0)) {
        *data += 1;
    }
}

int main() {
    int *data, *flag;
    cudaMalloc(&data, sizeof(int));
    cudaMalloc(&flag, sizeof(int));
    cudaMemset(flag, 0, sizeof(int));
    pass<<<2, 1>>>(data, flag);
    cudaFree(data);
    cudaFree(flag);
}
