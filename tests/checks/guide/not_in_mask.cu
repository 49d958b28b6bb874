__global__ void vote(int *out) {
    out[threadIdx.x] = __any_sync(0xffff, threadIdx.x == 20);
}

int main() {
    int *out;
    cudaMalloc(&out, 32 * sizeof(int));
    vote<<<1, 32>>>(out);
    cudaFree(out);
}
