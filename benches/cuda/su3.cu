// Products of complex 3 x 3 matrices, as in lattice QCD. Each thread computes one product.
// nvcc -ptx -arch=compute_75 -O3 su3.cu -o su3.ptx

struct Matrix {
    float2 at[3][3];
};

extern "C" __global__ void su3_multiply(const Matrix *a, const Matrix *b, Matrix *products, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) {
            float2 sum = make_float2(0, 0);
            for (int k = 0; k < 3; ++k) {
                float2 x = a[i].at[row][k], y = b[i].at[k][column];
                sum.x += x.x * y.x - x.y * y.y;
                sum.y += x.x * y.y + x.y * y.x;
            }
            products[i].at[row][column] = sum;
        }
}
