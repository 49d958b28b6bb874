__global__ void set(int *p) {
    *p = 1;
}

int main() {
    int *p;
    cudaMalloc(&p, sizeof(int));
    cudaFree(p);
    set<<<1, 1>>>(p);
}
