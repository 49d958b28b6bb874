// options: --track-unused-memory
__global__ void half(int *p) {
    p[threadIdx.x] = 1;
}

int main() {
    int *p;
    cudaMalloc(&p, 64 * sizeof(int));
    half<<<1, 32>>>(p);
    cudaFree(p);
}
