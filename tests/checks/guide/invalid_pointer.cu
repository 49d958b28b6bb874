int main() {
    int *p;
    cudaMalloc(&p, sizeof(int));
    cudaFree(p);
    cudaFree(p);
}
