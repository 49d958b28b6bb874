__global__ void set(int *p) {
    *p = 1;
}

int main() {
    cudaStream_t a, b;
    int *p;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMallocAsync(&p, sizeof(int), a);
    set<<<1, 1, 0, b>>>(p);
    cudaStreamSynchronize(b);
    cudaFreeAsync(p, a);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
}
