__global__ void twice() {
    int *p = (int *)malloc(64);
    p[0] = 1;
    free(p);
    free(p);
}

int main() {
    twice<<<1, 1>>>();
    cudaDeviceSynchronize();
}
