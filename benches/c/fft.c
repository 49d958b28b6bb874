// Fourier transforms of 1024 complex numbers each (radix 4, Stockham's order). Buffers: in, out, roots of unity
// (exp(-2 pi i k / 1024)). Numbers: transforms.
#define N 1024
#define QUARTER (N / 4)

typedef struct {
    float re, im;
} complex;

const int phases = 1;

static inline complex times(complex a, complex b) {
    return (complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline void butterfly(complex a, complex b, complex c, complex d, complex *restrict to, int stride) {
    complex ac = {a.re + c.re, a.im + c.im}, a_c = {a.re - c.re, a.im - c.im};
    complex bd = {b.re + d.re, b.im + d.im}, b_d = {b.re - d.re, b.im - d.im};
    to[0] = (complex){ac.re + bd.re, ac.im + bd.im};
    to[stride] = (complex){a_c.re + b_d.im, a_c.im - b_d.re};
    to[2 * stride] = (complex){ac.re - bd.re, ac.im - bd.im};
    to[3 * stride] = (complex){a_c.re - b_d.im, a_c.im + b_d.re};
}

static void pass(const complex *restrict in, complex *restrict out, const complex *restrict roots, int length) {
    int step = QUARTER / length;
    for (int block = 0; block < step; ++block)
        for (int k = 0; k < length; ++k) {
            const complex *from = in + block * length + k;
            complex b = times(from[QUARTER], roots[k * step]);
            complex c = times(from[2 * QUARTER], roots[2 * k * step]);
            complex d = times(from[3 * QUARTER], roots[3 * k * step]);
            butterfly(from[0], b, c, d, out + 4 * block * length + k, length);
        }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const complex *in = buffers[0], *roots = buffers[2];
    complex *out = buffers[1], a[N], b[N];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i) {
        pass(in + i * N, a, roots, 1);
        pass(a, b, roots, 4);
        pass(b, a, roots, 16);
        pass(a, b, roots, 64);
        pass(b, out + i * N, roots, 256);
    }
}
