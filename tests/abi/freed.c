// Checks that kernels that use freed device memory end with an error.
#include "abi.h"

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);

static CUresult poke(CUdeviceptr address) {
    CUmodule module;
    CUfunction function;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&function, module, "poke"));
    void *params[] = {&address};
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    return cuCtxSynchronize();
}

static void again(void) {
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    start();
}

int main(void) {
    static const size_t sizes[] = {1, 256, 1000, 4096, 65536, 1 << 20, 2 << 20, 64 << 20};
    start();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        CUdeviceptr a, b;
        REQUIRE(cuMemAlloc_v2(&a, sizes[i]));
        REQUIRE(cuMemAlloc_v2(&b, sizes[i]));
        EXPECT(poke(a), SUCCESS);
        // An array of whole pages ends at the end of a page, so an access after the array faults.
        if (sizes[i] % 4096 == 0) {
            EXPECT(poke(a + sizes[i]), ILLEGAL_ADDRESS);
            again();
            REQUIRE(cuMemAlloc_v2(&a, sizes[i]));
            REQUIRE(cuMemAlloc_v2(&b, sizes[i]));
        }
        REQUIRE(cuMemFree_v2(a));
        EXPECT(poke(a), ILLEGAL_ADDRESS);
        again();
        // The reset has freed b.
        EXPECT(poke(b), ILLEGAL_ADDRESS);
        again();
        REQUIRE(cuMemAllocAsync(&a, sizes[i], NULL));
        EXPECT(poke(a), SUCCESS);
        REQUIRE(cuMemFreeAsync(a, NULL));
        REQUIRE(cuCtxSynchronize());
        EXPECT(poke(a), ILLEGAL_ADDRESS);
        again();
    }
    return finish();
}
