// A kernel writes to a wrong address. The error is sticky until the context is reset.
#include "abi.h"

static CUresult poke(CUdeviceptr address) {
    CUmodule module;
    CUfunction function;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&function, module, "poke"));
    void *params[] = {&address};
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), SUCCESS);
    return cuCtxSynchronize();
}

int main(void) {
    start();
    CUdeviceptr v, other;
    size_t bytes = 4096;
    for (int round = 0; round < 3; ++round) {
        REQUIRE(cuMemAlloc_v2(&v, bytes));
        EXPECT(poke(v), SUCCESS);
        unsigned value = 0;
        EXPECT(cuMemcpyDtoH_v2(&value, v, 4), SUCCESS);
        CHECK(value == 7);
        CUdeviceptr wrong[] = {0, 1 << 20, v + (1 << 20)};
        EXPECT(poke(wrong[round]), ILLEGAL_ADDRESS);
        // Every call returns the same error until the reset.
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        EXPECT(cuMemAlloc_v2(&other, 16), ILLEGAL_ADDRESS);
        EXPECT(cuMemcpyDtoH_v2(&value, v, 4), ILLEGAL_ADDRESS);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        start();
        EXPECT(cuMemFree_v2(v), INVALID_VALUE);
    }
    EXPECT(cuCtxSynchronize(), SUCCESS);
    return finish();
}
