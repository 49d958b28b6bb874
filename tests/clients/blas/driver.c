// The Fortran interface of BLAS on cuBLAS: each function copies its operands to the device, calls cuBLAS, and copies
// the results back.
//
// If cuBLAS refuses an argument, it prints the number of the parameter on standard error; XERBLA gets this number. Any
// other failure ends the program.
#define _GNU_SOURCE
#include <complex.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// CUDA's runtime.
int cudaMalloc(void **place, size_t bytes);
int cudaMemcpy(void *to, const void *from, size_t bytes, int direction);
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

#define INVALID_VALUE 7
#define ROOM ((size_t)64 << 20)
#define MOST_RESULTS 2

typedef float complex c32;
typedef double complex c64;

void xerbla_(const char *name, const int *parameter, size_t length);

static void *cublas, *handle;
static int messages, terminal;
static char *device;
static size_t used;
static struct {
    void *host;
    char *device;
    size_t bytes;
} results[MOST_RESULTS];
static int result_count;

static void fail(const char *what, int status) {
    dprintf(terminal, "FAIL %s: %d\n", what, status);
    _exit(1);
}

static void *find(const char *name) {
    void *function = dlsym(cublas, name);
    if (!function) fail(name, -1);
    return function;
}

// Results of cuBLAS's functions are statuses; their arguments are integers and addresses.
typedef int (*function)();

__attribute__((constructor)) static void start(void) {
    terminal = dup(2);
    cublas = dlopen("libcublas.so.12", RTLD_NOW);
    if (!cublas) fail(dlerror(), -1);
    int status = ((function)find("cublasCreate_v2"))(&handle);
    if (status) fail("cublasCreate", status);
    status = cudaMalloc((void **)&device, ROOM);
    if (status) fail("cudaMalloc", status);
    messages = memfd_create("messages", 0);
    dup2(messages, 2);
}

// Copies an operand to the device.
static void *in(const void *host, size_t bytes) {
    char *place = device + used;
    used += (bytes + 511) / 256 * 256;
    if (used > ROOM) fail("an operand is too large", -1);
    int status = bytes ? cudaMemcpy(place, host, bytes, cudaMemcpyHostToDevice) : 0;
    if (status) fail("cudaMemcpy", status);
    return place;
}

// Copies an operand to the device that `end` copies back.
static void *inout(void *host, size_t bytes) {
    void *place = in(host, bytes);
    results[result_count].host = host;
    results[result_count].device = place;
    results[result_count++].bytes = bytes;
    return place;
}

// Ends a call of the function `name`.
static void end(const char *name, int status) {
    static off_t before;
    used = 0;
    int count = result_count;
    result_count = 0;
    if (status == INVALID_VALUE) {
        char text[256] = "";
        ssize_t length = pread(messages, text, sizeof text - 1, before);
        before += length;
        char *number = strstr(text, "parameter number ");
        if (!number) fail(name, status);
        int parameter = atoi(number + strlen("parameter number "));
        xerbla_(name, &parameter, strlen(name));
        return;
    }
    if (status) fail(name, status);
    for (int i = 0; i < count; i++) {
        if (!results[i].bytes) continue;
        status = cudaMemcpy(results[i].host, results[i].device, results[i].bytes, cudaMemcpyDeviceToHost);
        if (status) fail("cudaMemcpy", status);
    }
}

// `CALL(S, gemm, "SGEMM ", arguments)` calls cublasSgemm_v2.
#define CALL(letter, routine, name, ...)                                  \
    do {                                                                  \
        static function call;                                             \
        if (!call) call = (function)find("cublas" letter routine "_v2"); \
        end(name, call(handle, __VA_ARGS__));                             \
    } while (0)

static size_t vector(int n, int increment, size_t size) {
    return n <= 0 ? 0 : (1 + (size_t)(n - 1) * abs(increment)) * size;
}

static size_t matrix(int ld, int columns, size_t size) {
    return ld <= 0 || columns <= 0 ? 0 : (size_t)ld * columns * size;
}

static size_t packed(int n, size_t size) { return n <= 0 ? 0 : (size_t)n * (n + 1) / 2 * size; }

static int choice(const char *letter, const char *letters) {
    const char *found = strchr(letters, toupper(*letter));
    return found && *found ? (int)(found - letters) : -1;
}

static int operation(const char *letter) { return choice(letter, "NTC"); }
// BLAS refuses the operation T of Hermitian updates and C of symmetric updates of complex matrices; cuBLAS takes both.
static int update(const char *letter, const char *letters) { return strchr(letters, toupper(*letter)) ? operation(letter) : -1; }
static int triangle(const char *letter) { return choice(letter, "LU"); }
static int side(const char *letter) { return choice(letter, "LR"); }
static int diagonal(const char *letter) { return choice(letter, "NU"); }

// Level 1.

#define VECTORS(T, l, L)                                                                                    \
    void l##axpy_(const int *n, const T *a, const T *x, const int *incx, T *y, const int *incy) {           \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *dy = inout(y, vector(*n, *incy, sizeof *y));       \
        CALL(#L, "axpy", #L "AXPY ", *n, a, dx, *incx, dy, *incy);                                          \
    }                                                                                                       \
    void l##copy_(const int *n, const T *x, const int *incx, T *y, const int *incy) {                       \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *dy = inout(y, vector(*n, *incy, sizeof *y));       \
        CALL(#L, "copy", #L "COPY ", *n, dx, *incx, dy, *incy);                                             \
    }                                                                                                       \
    void l##swap_(const int *n, T *x, const int *incx, T *y, const int *incy) {                             \
        void *dx = inout(x, vector(*n, *incx, sizeof *x)), *dy = inout(y, vector(*n, *incy, sizeof *y));    \
        CALL(#L, "swap", #L "SWAP ", *n, dx, *incx, dy, *incy);                                             \
    }                                                                                                       \
    void l##scal_(const int *n, const T *a, T *x, const int *incx) {                                        \
        void *dx = inout(x, vector(*n, *incx, sizeof *x));                                                  \
        CALL(#L, "scal", #L "SCAL ", *n, a, dx, *incx);                                                     \
    }                                                                                                       \
    int i##l##amax_(const int *n, const T *x, const int *incx) {                                            \
        int result = 0;                                                                                     \
        void *dx = in(x, vector(*n, *incx, sizeof *x));                                                     \
        CALL("I", #l "amax", "I" #L "AMAX", *n, dx, *incx, &result);                                        \
        return result;                                                                                      \
    }

VECTORS(float, s, S)
VECTORS(double, d, D)
VECTORS(c32, c, C)
VECTORS(c64, z, Z)

// Sums of one vector. cuBLAS defines the norm for positive increments only; BLAS reads the same elements for -incx, and
// n times the first one for 0.
#define SUMS(T, R, sum, SUM, nrm2, NRM2, letters)                                      \
    R sum##_(const int *n, const T *x, const int *incx) {                              \
        R result = 0;                                                                  \
        void *dx = in(x, vector(*n, *incx, sizeof *x));                                \
        CALL(letters, "asum", #SUM, *n, dx, *incx, &result);                           \
        return result;                                                                 \
    }                                                                                  \
    R nrm2##_(const int *n, const T *x, const int *incx) {                             \
        R result = 0;                                                                  \
        char *dx = in(x, vector(*n, *incx, sizeof *x));                                \
        for (int i = 1; *incx == 0 && i < *n; i++)                                     \
            cudaMemcpy(dx + i * sizeof *x, x, sizeof *x, cudaMemcpyHostToDevice);      \
        CALL(letters, "nrm2", #NRM2, *n, dx, *incx ? abs(*incx) : 1, &result);         \
        return result;                                                                 \
    }

SUMS(float, float, sasum, SASUM, snrm2, SNRM2, "S")
SUMS(double, double, dasum, DASUM, dnrm2, DNRM2, "D")
SUMS(c32, float, scasum, SCASUM, scnrm2, SCNRM2, "Sc")
SUMS(c64, double, dzasum, DZASUM, dznrm2, DZNRM2, "Dz")

#define DOT(T, name, letter, routine)                                                       \
    T name##_(const int *n, const T *x, const int *incx, const T *y, const int *incy) {     \
        T result = 0;                                                                       \
        void *dx = in(x, vector(*n, *incx, sizeof *x));                                     \
        void *dy = in(y, vector(*n, *incy, sizeof *y));                                     \
        CALL(letter, routine, #name, *n, dx, *incx, dy, *incy, &result);                    \
        return result;                                                                      \
    }

DOT(float, sdot, "S", "dot")
DOT(double, ddot, "D", "dot")
DOT(c32, cdotu, "C", "dotu")
DOT(c32, cdotc, "C", "dotc")
DOT(c64, zdotu, "Z", "dotu")
DOT(c64, zdotc, "Z", "dotc")

// cuBLAS has no DSDOT and SDSDOT: the sum is that of DDOT.
double dsdot_(const int *n, const float *x, const int *incx, const float *y, const int *incy) {
    size_t of_x = vector(*n, *incx, 1), of_y = vector(*n, *incy, 1);
    double *wide_x = calloc(of_x + 1, sizeof *wide_x), *wide_y = calloc(of_y + 1, sizeof *wide_y);
    for (size_t i = 0; i < of_x; i++) wide_x[i] = x[i];
    for (size_t i = 0; i < of_y; i++) wide_y[i] = y[i];
    double sum = ddot_(n, wide_x, incx, wide_y, incy);
    free(wide_x);
    free(wide_y);
    return sum;
}

float sdsdot_(const int *n, const float *b, const float *x, const int *incx, const float *y, const int *incy) {
    return (float)(*b + dsdot_(n, x, incx, y, incy));
}

#define SCALE_BY_REAL(T, R, name, letters)                      \
    void name##_(const int *n, const R *a, T *x, const int *incx) { \
        void *dx = inout(x, vector(*n, *incx, sizeof *x));      \
        CALL(letters, "scal", #name, *n, a, dx, *incx);         \
    }

SCALE_BY_REAL(c32, float, csscal, "Cs")
SCALE_BY_REAL(c64, double, zdscal, "Zd")

#define ROTATIONS(T, l, L)                                                                                              \
    void l##rotg_(T *a, T *b, T *c, T *s) { CALL(#L, "rotg", #L "ROTG ", a, b, c, s); }                                 \
    void l##rotmg_(T *d1, T *d2, T *x, const T *y, T *parameters) { CALL(#L, "rotmg", #L "ROTMG", d1, d2, x, y, parameters); } \
    void l##rot_(const int *n, T *x, const int *incx, T *y, const int *incy, const T *c, const T *s) {                  \
        void *dx = inout(x, vector(*n, *incx, sizeof *x)), *dy = inout(y, vector(*n, *incy, sizeof *y));                \
        CALL(#L, "rot", #L "ROT  ", *n, dx, *incx, dy, *incy, c, s);                                                    \
    }                                                                                                                   \
    void l##rotm_(const int *n, T *x, const int *incx, T *y, const int *incy, const T *parameters) {                    \
        void *dx = inout(x, vector(*n, *incx, sizeof *x)), *dy = inout(y, vector(*n, *incy, sizeof *y));                \
        CALL(#L, "rotm", #L "ROTM ", *n, dx, *incx, dy, *incy, parameters);                                             \
    }

ROTATIONS(float, s, S)
ROTATIONS(double, d, D)

// Level 2.

#define GENERAL(T, l, L)                                                                                                \
    void l##gemv_(const char *trans, const int *m, const int *n, const T *alpha, const T *a, const int *lda, const T *x, \
                  const int *incx, const T *beta, T *y, const int *incy) {                                              \
        int of_x = operation(trans) ? *m : *n, of_y = operation(trans) ? *n : *m;                                       \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = in(x, vector(of_x, *incx, sizeof *x));                     \
        void *dy = inout(y, vector(of_y, *incy, sizeof *y));                                                            \
        CALL(#L, "gemv", #L "GEMV ", operation(trans), *m, *n, alpha, da, *lda, dx, *incx, beta, dy, *incy);            \
    }                                                                                                                   \
    void l##gbmv_(const char *trans, const int *m, const int *n, const int *kl, const int *ku, const T *alpha,          \
                  const T *a, const int *lda, const T *x, const int *incx, const T *beta, T *y, const int *incy) {      \
        int of_x = operation(trans) ? *m : *n, of_y = operation(trans) ? *n : *m;                                       \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = in(x, vector(of_x, *incx, sizeof *x));                     \
        void *dy = inout(y, vector(of_y, *incy, sizeof *y));                                                            \
        CALL(#L, "gbmv", #L "GBMV ", operation(trans), *m, *n, *kl, *ku, alpha, da, *lda, dx, *incx, beta, dy, *incy);  \
    }                                                                                                                   \
    void l##trmv_(const char *uplo, const char *trans, const char *diag, const int *n, const T *a, const int *lda,      \
                  T *x, const int *incx) {                                                                              \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                    \
        CALL(#L, "trmv", #L "TRMV ", triangle(uplo), operation(trans), diagonal(diag), *n, da, *lda, dx, *incx);        \
    }                                                                                                                   \
    void l##trsv_(const char *uplo, const char *trans, const char *diag, const int *n, const T *a, const int *lda,      \
                  T *x, const int *incx) {                                                                              \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                    \
        CALL(#L, "trsv", #L "TRSV ", triangle(uplo), operation(trans), diagonal(diag), *n, da, *lda, dx, *incx);        \
    }                                                                                                                   \
    void l##tbmv_(const char *uplo, const char *trans, const char *diag, const int *n, const int *k, const T *a,        \
                  const int *lda, T *x, const int *incx) {                                                              \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                    \
        CALL(#L, "tbmv", #L "TBMV ", triangle(uplo), operation(trans), diagonal(diag), *n, *k, da, *lda, dx, *incx);    \
    }                                                                                                                   \
    void l##tbsv_(const char *uplo, const char *trans, const char *diag, const int *n, const int *k, const T *a,        \
                  const int *lda, T *x, const int *incx) {                                                              \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                    \
        CALL(#L, "tbsv", #L "TBSV ", triangle(uplo), operation(trans), diagonal(diag), *n, *k, da, *lda, dx, *incx);    \
    }                                                                                                                   \
    void l##tpmv_(const char *uplo, const char *trans, const char *diag, const int *n, const T *a, T *x,                \
                  const int *incx) {                                                                                    \
        void *da = in(a, packed(*n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                          \
        CALL(#L, "tpmv", #L "TPMV ", triangle(uplo), operation(trans), diagonal(diag), *n, da, dx, *incx);              \
    }                                                                                                                   \
    void l##tpsv_(const char *uplo, const char *trans, const char *diag, const int *n, const T *a, T *x,                \
                  const int *incx) {                                                                                    \
        void *da = in(a, packed(*n, sizeof *a)), *dx = inout(x, vector(*n, *incx, sizeof *x));                          \
        CALL(#L, "tpsv", #L "TPSV ", triangle(uplo), operation(trans), diagonal(diag), *n, da, dx, *incx);              \
    }

GENERAL(float, s, S)
GENERAL(double, d, D)
GENERAL(c32, c, C)
GENERAL(c64, z, Z)

// Symmetric matrices of real numbers and Hermitian ones of complex numbers; factors of rank-one updates are real.
#define SYMMETRIC(T, R, l, L, mv, MV, bmv, BMV, pmv, PMV, r, RR, r2, RR2, pr, PR, pr2, PR2)                         \
    void l##mv##_(const char *uplo, const int *n, const T *alpha, const T *a, const int *lda, const T *x,               \
                  const int *incx, const T *beta, T *y, const int *incy) {                                              \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = in(x, vector(*n, *incx, sizeof *x));                       \
        void *dy = inout(y, vector(*n, *incy, sizeof *y));                                                              \
        CALL(#L, #mv, #L MV " ", triangle(uplo), *n, alpha, da, *lda, dx, *incx, beta, dy, *incy);                      \
    }                                                                                                                   \
    void l##bmv##_(const char *uplo, const int *n, const int *k, const T *alpha, const T *a, const int *lda,            \
                   const T *x, const int *incx, const T *beta, T *y, const int *incy) {                                 \
        void *da = in(a, matrix(*lda, *n, sizeof *a)), *dx = in(x, vector(*n, *incx, sizeof *x));                       \
        void *dy = inout(y, vector(*n, *incy, sizeof *y));                                                              \
        CALL(#L, #bmv, #L BMV " ", triangle(uplo), *n, *k, alpha, da, *lda, dx, *incx, beta, dy, *incy);                \
    }                                                                                                                   \
    void l##pmv##_(const char *uplo, const int *n, const T *alpha, const T *a, const T *x, const int *incx,             \
                   const T *beta, T *y, const int *incy) {                                                              \
        void *da = in(a, packed(*n, sizeof *a)), *dx = in(x, vector(*n, *incx, sizeof *x));                             \
        void *dy = inout(y, vector(*n, *incy, sizeof *y));                                                              \
        CALL(#L, #pmv, #L PMV " ", triangle(uplo), *n, alpha, da, dx, *incx, beta, dy, *incy);                          \
    }                                                                                                                   \
    void l##r##_(const char *uplo, const int *n, const R *alpha, const T *x, const int *incx, T *a, const int *lda) {   \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *da = inout(a, matrix(*lda, *n, sizeof *a));                    \
        CALL(#L, #r, #L RR "  ", triangle(uplo), *n, alpha, dx, *incx, da, *lda);                                       \
    }                                                                                                                   \
    void l##pr##_(const char *uplo, const int *n, const R *alpha, const T *x, const int *incx, T *a) {                  \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *da = inout(a, packed(*n, sizeof *a));                          \
        CALL(#L, #pr, #L PR "  ", triangle(uplo), *n, alpha, dx, *incx, da);                                            \
    }                                                                                                                   \
    void l##r2##_(const char *uplo, const int *n, const T *alpha, const T *x, const int *incx, const T *y,              \
                  const int *incy, T *a, const int *lda) {                                                              \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *dy = in(y, vector(*n, *incy, sizeof *y));                      \
        void *da = inout(a, matrix(*lda, *n, sizeof *a));                                                               \
        CALL(#L, #r2, #L RR2 " ", triangle(uplo), *n, alpha, dx, *incx, dy, *incy, da, *lda);                           \
    }                                                                                                                   \
    void l##pr2##_(const char *uplo, const int *n, const T *alpha, const T *x, const int *incx, const T *y,             \
                   const int *incy, T *a) {                                                                             \
        void *dx = in(x, vector(*n, *incx, sizeof *x)), *dy = in(y, vector(*n, *incy, sizeof *y));                      \
        void *da = inout(a, packed(*n, sizeof *a));                                                                     \
        CALL(#L, #pr2, #L PR2 " ", triangle(uplo), *n, alpha, dx, *incx, dy, *incy, da);                                \
    }

SYMMETRIC(float, float, s, S, symv, "SYMV", sbmv, "SBMV", spmv, "SPMV", syr, "SYR", syr2, "SYR2", spr, "SPR", spr2, "SPR2")
SYMMETRIC(double, double, d, D, symv, "SYMV", sbmv, "SBMV", spmv, "SPMV", syr, "SYR", syr2, "SYR2", spr, "SPR", spr2, "SPR2")
SYMMETRIC(c32, float, c, C, hemv, "HEMV", hbmv, "HBMV", hpmv, "HPMV", her, "HER", her2, "HER2", hpr, "HPR", hpr2, "HPR2")
SYMMETRIC(c64, double, z, Z, hemv, "HEMV", hbmv, "HBMV", hpmv, "HPMV", her, "HER", her2, "HER2", hpr, "HPR", hpr2, "HPR2")

#define RANK_ONE(T, l, L, ger, name)                                                                                    \
    void l##ger##_(const int *m, const int *n, const T *alpha, const T *x, const int *incx, const T *y,                 \
                   const int *incy, T *a, const int *lda) {                                                             \
        void *dx = in(x, vector(*m, *incx, sizeof *x)), *dy = in(y, vector(*n, *incy, sizeof *y));                      \
        void *da = inout(a, matrix(*lda, *n, sizeof *a));                                                               \
        CALL(#L, #ger, name, *m, *n, alpha, dx, *incx, dy, *incy, da, *lda);                                            \
    }

RANK_ONE(float, s, S, ger, "SGER  ")
RANK_ONE(double, d, D, ger, "DGER  ")
RANK_ONE(c32, c, C, geru, "CGERU ")
RANK_ONE(c32, c, C, gerc, "CGERC ")
RANK_ONE(c64, z, Z, geru, "ZGERU ")
RANK_ONE(c64, z, Z, gerc, "ZGERC ")

// Level 3.

#define PRODUCTS(T, l, L)                                                                                               \
    void l##gemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const T *alpha,     \
                  const T *a, const int *lda, const T *b, const int *ldb, const T *beta, T *c, const int *ldc) {        \
        void *da = in(a, matrix(*lda, operation(transa) ? *m : *k, sizeof *a));                                         \
        void *db = in(b, matrix(*ldb, operation(transb) ? *k : *n, sizeof *b));                                         \
        void *dc = inout(c, matrix(*ldc, *n, sizeof *c));                                                               \
        CALL(#L, "gemm", #L "GEMM ", operation(transa), operation(transb), *m, *n, *k, alpha, da, *lda, db, *ldb, beta, \
             dc, *ldc);                                                                                                 \
    }                                                                                                                   \
    void l##trmm_(const char *left, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,  \
                  const T *alpha, const T *a, const int *lda, T *b, const int *ldb) {                                   \
        void *da = in(a, matrix(*lda, side(left) ? *n : *m, sizeof *a));                                                \
        void *db = inout(b, matrix(*ldb, *n, sizeof *b));                                                               \
        CALL(#L, "trmm", #L "TRMM ", side(left), triangle(uplo), operation(trans), diagonal(diag), *m, *n, alpha, da,   \
             *lda, db, *ldb, db, *ldb);                                                                                 \
    }                                                                                                                   \
    void l##trsm_(const char *left, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,  \
                  const T *alpha, const T *a, const int *lda, T *b, const int *ldb) {                                   \
        void *da = in(a, matrix(*lda, side(left) ? *n : *m, sizeof *a));                                                \
        void *db = inout(b, matrix(*ldb, *n, sizeof *b));                                                               \
        CALL(#L, "trsm", #L "TRSM ", side(left), triangle(uplo), operation(trans), diagonal(diag), *m, *n, alpha, da,   \
             *lda, db, *ldb);                                                                                           \
    }

PRODUCTS(float, s, S)
PRODUCTS(double, d, D)
PRODUCTS(c32, c, C)
PRODUCTS(c64, z, Z)

#define SYMMETRIC_PRODUCT(T, l, L, symm, name)                                                                          \
    void l##symm##_(const char *left, const char *uplo, const int *m, const int *n, const T *alpha, const T *a,         \
                    const int *lda, const T *b, const int *ldb, const T *beta, T *c, const int *ldc) {                  \
        void *da = in(a, matrix(*lda, side(left) ? *n : *m, sizeof *a)), *db = in(b, matrix(*ldb, *n, sizeof *b));      \
        void *dc = inout(c, matrix(*ldc, *n, sizeof *c));                                                               \
        CALL(#L, #symm, name, side(left), triangle(uplo), *m, *n, alpha, da, *lda, db, *ldb, beta, dc, *ldc);           \
    }

SYMMETRIC_PRODUCT(float, s, S, symm, "SSYMM ")
SYMMETRIC_PRODUCT(double, d, D, symm, "DSYMM ")
SYMMETRIC_PRODUCT(c32, c, C, symm, "CSYMM ")
SYMMETRIC_PRODUCT(c64, z, Z, symm, "ZSYMM ")
SYMMETRIC_PRODUCT(c32, c, C, hemm, "CHEMM ")
SYMMETRIC_PRODUCT(c64, z, Z, hemm, "ZHEMM ")

#define RANK_K(T, A, B, l, L, letters, syrk, SYRK, syr2k, SYR2K)                                                                 \
    void l##syrk##_(const char *uplo, const char *trans, const int *n, const int *k, const A *alpha, const T *a,        \
                    const int *lda, const B *beta, T *c, const int *ldc) {                                              \
        void *da = in(a, matrix(*lda, operation(trans) ? *n : *k, sizeof *a));                                          \
        void *dc = inout(c, matrix(*ldc, *n, sizeof *c));                                                               \
        CALL(#L, #syrk, SYRK, triangle(uplo), update(trans, letters), *n, *k, alpha, da, *lda, beta, dc, *ldc);               \
    }                                                                                                                   \
    void l##syr2k##_(const char *uplo, const char *trans, const int *n, const int *k, const T *alpha, const T *a,       \
                     const int *lda, const T *b, const int *ldb, const B *beta, T *c, const int *ldc) {                 \
        int columns = operation(trans) ? *n : *k;                                                                       \
        void *da = in(a, matrix(*lda, columns, sizeof *a)), *db = in(b, matrix(*ldb, columns, sizeof *b));              \
        void *dc = inout(c, matrix(*ldc, *n, sizeof *c));                                                               \
        CALL(#L, #syr2k, SYR2K, triangle(uplo), update(trans, letters), *n, *k, alpha, da, *lda, db, *ldb, beta, dc, *ldc);   \
    }

RANK_K(float, float, float, s, S, "NTC", syrk, "SSYRK ", syr2k, "SSYR2K")
RANK_K(double, double, double, d, D, "NTC", syrk, "DSYRK ", syr2k, "DSYR2K")
RANK_K(c32, c32, c32, c, C, "NT", syrk, "CSYRK ", syr2k, "CSYR2K")
RANK_K(c64, c64, c64, z, Z, "NT", syrk, "ZSYRK ", syr2k, "ZSYR2K")
RANK_K(c32, float, float, c, C, "NC", herk, "CHERK ", her2k, "CHER2K")
RANK_K(c64, double, double, z, Z, "NC", herk, "ZHERK ", her2k, "ZHER2K")
