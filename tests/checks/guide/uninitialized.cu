__global__ void add(const int *a, int *sum) {
    atomicAdd(sum, a[threadIdx.x]);
}

int main() {
    int *a, *sum;
    cudaMalloc(&a, 32 * sizeof(int));
    cudaMalloc(&sum, sizeof(int));
    cudaMemset(a, 0, 32 * sizeof(int));
    add<<<1, 32>>>(a, sum);
    cudaFree(a);
    cudaFree(sum);
}
