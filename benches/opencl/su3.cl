// Products of complex 3 x 3 matrices, one product for each work-item.
typedef struct {
    float2 at[3][3];
} Matrix;

kernel void su3_multiply(global const Matrix *a, global const Matrix *b, global Matrix *products, int n) {
    int i = get_global_id(0);
    if (i >= n)
        return;
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) {
            float2 sum = (float2)(0, 0);
            for (int k = 0; k < 3; ++k) {
                float2 x = a[i].at[row][k], y = b[i].at[k][column];
                sum.x += x.x * y.x - x.y * y.y;
                sum.y += x.x * y.y + x.y * y.x;
            }
            products[i].at[row][column] = sum;
        }
}
