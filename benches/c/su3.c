// Products of complex 3 x 3 matrices, as in lattice QCD. Buffers: a, b, products (18 floats a matrix). Numbers: n.
typedef struct {
    float re, im;
} complex;

const int phases = 1;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const complex (*restrict a)[3][3] = buffers[0], (*restrict b)[3][3] = buffers[1];
    complex (*restrict product)[3][3] = buffers[2];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i)
        for (int row = 0; row < 3; ++row)
            for (int column = 0; column < 3; ++column) {
                complex sum = {0, 0};
                for (int k = 0; k < 3; ++k) {
                    complex x = a[i][row][k], y = b[i][k][column];
                    sum.re += x.re * y.re - x.im * y.im;
                    sum.im += x.re * y.im + x.im * y.re;
                }
                product[i][row][column] = sum;
            }
}
