int main() {
    int *p;
    cudaMalloc(&p, 100);
    cudaMemset(p, 0, 100 * sizeof(int));
    cudaFree(p);
}
