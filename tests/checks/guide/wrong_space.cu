__global__ void set(int *p) {
    *p = 1;
}

int main() {
    int value = 0;
    set<<<1, 1>>>(&value);
    cudaDeviceSynchronize();
    return value;
}
