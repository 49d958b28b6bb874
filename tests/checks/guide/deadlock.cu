__global__ void wait(int *out) {
    if (threadIdx.x < 32)
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    else
        asm volatile("barrier.sync 2, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}

int main() {
    int *out;
    cudaMalloc(&out, 64 * sizeof(int));
    wait<<<1, 64>>>(out);
    cudaDeviceSynchronize();
    cudaFree(out);
}
