#include <cassert>

__global__ void divide(int *p, int by) {
    assert(by != 0);
    p[threadIdx.x] /= by;
}

int main() {
    int *p;
    cudaMalloc(&p, 32 * sizeof(int));
    cudaMemset(p, 0, 32 * sizeof(int));
    divide<<<1, 32>>>(p, 0);
    cudaDeviceSynchronize();
    cudaFree(p);
}
