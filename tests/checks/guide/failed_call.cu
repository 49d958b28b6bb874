int main() {
    int *p;
    cudaMalloc(&p, (size_t)1 << 60);
}
