// Many threads use one context at once.
#include "abi.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 20, VALUES = 3000 };

static CUcontext context;
static CUfunction scale;

static void *work(void *argument) {
    float base = (float)(size_t)argument, factor = 2;
    float *values = malloc(VALUES * sizeof *values);
    unsigned n = VALUES;
    CUstream stream;
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuStreamCreate(&stream, 1));
    for (int round = 0; round < ROUNDS; ++round) {
        CUdeviceptr v;
        for (int i = 0; i < VALUES; ++i)
            values[i] = base + (float)i;
        REQUIRE(cuMemAlloc_v2(&v, VALUES * sizeof *values));
        void *params[] = {&v, &factor, &n};
        REQUIRE(cuMemcpyHtoDAsync_v2(v, values, VALUES * sizeof *values, stream));
        REQUIRE(cuLaunchKernel(scale, (VALUES + 63) / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
        REQUIRE(cuMemcpyDtoHAsync_v2(values, v, VALUES * sizeof *values, stream));
        REQUIRE(cuStreamSynchronize(stream));
        for (int i = 0; i < VALUES; ++i)
            if (values[i] != 2 * (base + (float)i)) {
                CHECK(!"a value is wrong");
                break;
            }
        REQUIRE(cuMemFree_v2(v));
    }
    REQUIRE(cuStreamDestroy_v2(stream));
    free(values);
    return NULL;
}

int main(void) {
    CUmodule module;
    pthread_t threads[THREADS];
    context = start();
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    for (size_t i = 0; i < THREADS; ++i)
        pthread_create(&threads[i], NULL, work, (void *)(i * 1000));
    for (size_t i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    return finish();
}
