/* Loads libcublas in the ways of Python packages, and computes with it on device memory: products in stream order and in a
 * graph, results in both pointer modes, wrong addresses. The arguments are paths of the library to load. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("line %d: %s\n", __LINE__, #condition);                  \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

typedef uint64_t address;

int cuInit(unsigned);
int cuMemAlloc_v2(address *, size_t);
int cuMemcpyHtoD_v2(address, const void *, size_t);
int cuMemcpyDtoH_v2(void *, address, size_t);
int cuMemcpyDtoHAsync_v2(void *, address, size_t, void *);
int cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *);

static void *library;

static void *function(const char *name) {
    void *found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}

typedef int (*gemm)(void *, int, int, int, int, int, const float *, address, int, address, int, const float *, address, int);
typedef int (*dot)(void *, int, address, int, address, int, float *);

int main(int count, char **paths) {
    for (int at = 1; at < count; at++) {
        library = dlopen(paths[at], RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library != NULL);
        int version = -1;
        REQUIRE(((int (*)(void *, int *))function("cublasGetVersion_v2"))(NULL, &version) == 0);
        printf("%s %d\n", strrchr(paths[at], '/') ? strrchr(paths[at], '/') + 1 : paths[at], version);
    }
    /* The functions have the library's name as their version, as NVIDIA's have, if the linker could write versions. */
    void *versioned = dlvsym(library, "cublasSgemm_v2", "libcublas.so.12");
    REQUIRE(versioned == NULL || versioned == function("cublasSgemm_v2"));

    /* The library needs no context of the program. */
    void *handle = NULL;
    REQUIRE(((int (*)(void **))function("cublasCreate_v2"))(&handle) == 0);
    int (*set_stream)(void *, void *) = (int (*)(void *, void *))function("cublasSetStream_v2");
    int (*set_mode)(void *, int) = (int (*)(void *, int))function("cublasSetPointerMode_v2");
    gemm sgemm = (gemm)function("cublasSgemm_v2");
    dot sdot = (dot)function("cublasSdot_v2");

    enum { N = 70, BYTES = N * N * sizeof(float) };
    static float host[N * N], got[N * N], expected[N * N];
    for (int i = 0; i < N * N; i++)
        host[i] = (float)(i % 7 - 3);
    for (int column = 0; column < N; column++)
        for (int row = 0; row < N; row++)
            for (int k = 0; k < N; k++)
                expected[column * N + row] += host[k * N + row] * host[column * N + k];
    address a = 0, c = 0, result = 0;
    REQUIRE(cuMemAlloc_v2(&a, BYTES) == 0 && cuMemAlloc_v2(&c, BYTES) == 0 && cuMemAlloc_v2(&result, 4) == 0);
    REQUIRE(cuMemcpyHtoD_v2(a, host, BYTES) == 0);
    const float one = 1, zero = 0;

    /* In stream order. */
    void *stream = NULL;
    REQUIRE(cuStreamCreate(&stream, 1) == 0 && set_stream(handle, stream) == 0);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, a, N, a, N, &zero, c, N) == 0);
    REQUIRE(cuMemcpyDtoHAsync_v2(got, c, BYTES, stream) == 0 && cuStreamSynchronize(stream) == 0);
    REQUIRE(memcmp(got, expected, BYTES) == 0);

    /* In a graph, which adds the product at each launch. */
    void *graph = NULL, *executable = NULL;
    REQUIRE(cuStreamBeginCapture_v2(stream, 0) == 0);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, a, N, a, N, &one, c, N) == 0);
    REQUIRE(cuStreamEndCapture(stream, &graph) == 0);
    REQUIRE(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    REQUIRE(cuGraphLaunch(executable, stream) == 0 && cuGraphLaunch(executable, stream) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0 && cuMemcpyDtoH_v2(got, c, BYTES) == 0);
    for (int i = 0; i < N * N; i++)
        REQUIRE(got[i] == 3 * expected[i]);

    /* A result of the host, and one of the device. */
    float sum = -1, squares = 0;
    for (int i = 0; i < N; i++)
        squares += host[i] * host[i];
    REQUIRE(sdot(handle, N, a, 1, a, 1, &sum) == 0 && sum == squares);
    REQUIRE(set_mode(handle, 1) == 0 && sdot(handle, N, a, 1, a, 1, (float *)result) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0 && cuMemcpyDtoH_v2(&sum, result, 4) == 0 && sum == squares);
    REQUIRE(set_mode(handle, 0) == 0);

    /* Memory of the host, no memory, memory that ends too early, and a scalar that is nowhere. The context stays usable. */
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, (address)host, N, a, N, &zero, c, N) == 13);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, 0, N, a, N, &zero, c, N) == 13);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, a + 64, 1 << 20, a, N, &zero, c, N) == 13);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, (const float *)64, a, N, a, N, &zero, c, N) == 7);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, a, N - 1, a, N, &zero, c, N) == 7);
    REQUIRE(sgemm((void *)host, 0, 0, N, N, N, &one, a, N, a, N, &zero, c, N) == 1);
    REQUIRE(sgemm(handle, 0, 0, N, N, N, &one, a, N, a, N, &zero, c, N) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0 && cuMemcpyDtoH_v2(got, c, BYTES) == 0);
    REQUIRE(memcmp(got, expected, BYTES) == 0);

    /* A handle of cuBLAS is one of cuBLASLt, which is another library. */
    void *light = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    REQUIRE(light != NULL);
    int (*get_version)(void *) = (int (*)(void *))dlsym(light, "cublasLtGetVersion");
    REQUIRE(get_version != NULL && get_version(NULL) == 120903);
    int (*create)(void **, int, int) = (int (*)(void **, int, int))dlsym(light, "cublasLtMatmulDescCreate");
    int (*layout)(void **, int, uint64_t, uint64_t, int64_t) =
        (int (*)(void **, int, uint64_t, uint64_t, int64_t))dlsym(light, "cublasLtMatrixLayoutCreate");
    int (*matmul)(void *, void *, const void *, address, void *, address, void *, const void *, address, void *, address, void *,
                  void *, void *, size_t, void *) = dlsym(light, "cublasLtMatmul");
    void *desc = NULL, *shape = NULL;
    REQUIRE(create(&desc, 68, 0) == 0 && layout(&shape, 0, N, N, N) == 0);
    REQUIRE(matmul(handle, desc, &one, a, shape, a, shape, &one, c, shape, c, shape, NULL, NULL, 0, stream) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0 && cuMemcpyDtoH_v2(got, c, BYTES) == 0);
    for (int i = 0; i < N * N; i++)
        REQUIRE(got[i] == 2 * expected[i]);
    REQUIRE(((int (*)(void *))function("cublasDestroy_v2"))(handle) == 0);
    REQUIRE(matmul(handle, desc, &one, a, shape, a, shape, &one, c, shape, c, shape, NULL, NULL, 0, stream) == 1);
    printf("PASS\n");
    return 0;
}
