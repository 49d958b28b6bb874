__global__ void reverse(int *p) {
    __shared__ int tile[64];
    tile[threadIdx.x] = p[threadIdx.x];
    p[threadIdx.x] = tile[63 - threadIdx.x];
}

int main() {
    int *p;
    cudaMalloc(&p, 64 * sizeof(int));
    cudaMemset(p, 0, 64 * sizeof(int));
    reverse<<<1, 64>>>(p);
    cudaFree(p);
}
