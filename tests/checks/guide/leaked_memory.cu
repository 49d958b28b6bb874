__global__ void set(int *p) {
    *p = 1;
}

int main() {
    int *p;
    cudaMalloc(&p, 1024);
    set<<<1, 1>>>(p);
    cudaDeviceSynchronize();
}
