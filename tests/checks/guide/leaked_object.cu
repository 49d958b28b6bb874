__global__ void set(int *p) {
    *p = 1;
}

int main() {
    cudaStream_t stream;
    int *p;
    cudaStreamCreate(&stream);
    cudaMalloc(&p, sizeof(int));
    set<<<1, 1, 0, stream>>>(p);
    cudaFree(p);
}
