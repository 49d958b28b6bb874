// The other source of separate_compilation.cu.
__device__ int counter = 7;
__constant__ float scale[4] = {0.5f, 1.5f, 2.5f, 3.5f};

__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ int negative(int x) { return -x; }
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

typedef int (*Function)(int);
__device__ Function chosen = square;
__device__ Function table[3] = {twice, square, negative};

static __device__ int helper(int x) { return x - 1; }
__device__ int other_helper(int x) { return helper(x); }

// Returns the sum of a value over a block of 64 threads.
__device__ int sum_in_shared(int value) {
    __shared__ int cells[64];
    cells[threadIdx.x] = value;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half)
            cells[threadIdx.x] += cells[threadIdx.x + half];
        __syncthreads();
    }
    return cells[0];
}

__global__ void other_kernel(int *out, int term) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = counter + i * term;
}
