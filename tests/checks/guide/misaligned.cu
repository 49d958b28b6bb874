__global__ void copy(const char *from, int *to) {
    *to = *(const int *)(from + 1);
}

int main() {
    char *from;
    int *to;
    cudaMalloc(&from, 64);
    cudaMalloc(&to, sizeof(int));
    cudaMemset(from, 0, 64);
    copy<<<1, 1>>>(from, to);
    cudaFree(from);
    cudaFree(to);
}
