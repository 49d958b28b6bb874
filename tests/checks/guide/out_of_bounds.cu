__global__ void fill(int *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = i;
}

int main() {
    int *p;
    cudaMalloc(&p, 100 * sizeof(int));
    fill<<<1, 128>>>(p, 100);
    cudaFree(p);
}
