int main() {
    int *p, value = 7;
    cudaMalloc(&p, sizeof(int));
    cudaMemcpy(&value, p, sizeof(int), cudaMemcpyHostToDevice);
    cudaFree(p);
}
