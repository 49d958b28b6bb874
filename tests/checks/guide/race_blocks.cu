__global__ void count(int *total) {
    *total = *total + 1;
}

int main() {
    int *total;
    cudaMalloc(&total, sizeof(int));
    cudaMemset(total, 0, sizeof(int));
    count<<<2, 1>>>(total);
    cudaFree(total);
}
