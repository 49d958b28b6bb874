__global__ void load(const int *from, int *to) {
    __shared__ int tile[64];
    int at = (int)__cvta_generic_to_shared(&tile[threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from + threadIdx.x) : "memory");
    __syncthreads();
    to[threadIdx.x] = tile[63 - threadIdx.x];
}

int main() {
    int *from, *to;
    cudaMalloc(&from, 64 * sizeof(int));
    cudaMalloc(&to, 64 * sizeof(int));
    cudaMemset(from, 0, 64 * sizeof(int));
    load<<<1, 64>>>(from, to);
    cudaFree(from);
    cudaFree(to);
}
