__global__ void set(int *p) {
    p[threadIdx.x] = 1;
}

int main() {
    set<<<1, 4>>>(0);
}
