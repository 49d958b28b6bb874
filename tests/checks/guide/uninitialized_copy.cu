__global__ void half(int *p) {
    p[threadIdx.x] = 1;
}

int main() {
    int *p, result[64];
    cudaMalloc(&p, sizeof(result));
    half<<<1, 32>>>(p);
    cudaMemcpy(result, p, sizeof(result), cudaMemcpyDeviceToHost);
    cudaFree(p);
}
