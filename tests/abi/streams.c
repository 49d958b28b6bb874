// Tests streams and events: order, waits, queries, host functions, and a kernel that waits for the host.
#include "abi.h"

static volatile int called;

static void host_function(void *data) {
    called = *(int *)data;
}

int main(void) {
    start();
    CUmodule module;
    CUfunction spin, scale;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));

    CUstream a, b;
    CUevent begin, end, never;
    REQUIRE(cuStreamCreate(&a, 1));
    REQUIRE(cuStreamCreate(&b, 1));
    REQUIRE(cuEventCreate(&begin, 0));
    REQUIRE(cuEventCreate(&end, 0));
    REQUIRE(cuEventCreate(&never, 0));
    EXPECT(cuStreamQuery(a), SUCCESS);
    EXPECT(cuEventQuery(never), SUCCESS);
    EXPECT(cuEventSynchronize(never), SUCCESS);

    // A kernel that runs until the host writes into pinned memory.
    unsigned *flag;
    CUdeviceptr flag_address;
    REQUIRE(cuMemHostAlloc((void **)&flag, 4096, 2));
    *(volatile unsigned *)flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&flag_address, flag, 0));
    void *spin_params[] = {&flag_address};
    EXPECT(cuEventRecord(begin, a), SUCCESS);
    EXPECT(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, a, spin_params, NULL), SUCCESS);
    EXPECT(cuEventRecord(end, a), SUCCESS);
    EXPECT(cuStreamQuery(a), NOT_READY);
    EXPECT(cuEventQuery(end), NOT_READY);
    float milliseconds = -1;
    EXPECT(cuEventElapsedTime(&milliseconds, begin, end), NOT_READY);
    // Stream b waits for the event, so its host function runs after the kernel.
    static int seven = 7;
    EXPECT(cuStreamWaitEvent(b, end, 0), SUCCESS);
    EXPECT(cuLaunchHostFunc(b, host_function, &seven), SUCCESS);
    EXPECT(cuStreamQuery(b), NOT_READY);
    CHECK(called == 0);
    *(volatile unsigned *)flag = 1;
    EXPECT(cuStreamSynchronize(b), SUCCESS);
    CHECK(called == 7);
    EXPECT(cuStreamSynchronize(a), SUCCESS);
    EXPECT(cuEventQuery(end), SUCCESS);
    EXPECT(cuEventElapsedTime(&milliseconds, begin, end), SUCCESS);
    CHECK(milliseconds >= 0 && milliseconds < 600000);
    EXPECT(cuEventElapsedTime(&milliseconds, begin, never), INVALID_HANDLE);

    // Copies, fills and kernels of one stream happen in order.
    CUdeviceptr v;
    float values[256], factor = 3;
    unsigned n = 256;
    REQUIRE(cuMemAlloc_v2(&v, sizeof values));
    void *params[] = {&v, &factor, &n};
    for (int i = 0; i < 256; ++i)
        values[i] = 1;
    EXPECT(cuMemcpyHtoDAsync_v2(v, values, sizeof values, a), SUCCESS);
    for (int i = 0; i < 5; ++i)
        EXPECT(cuLaunchKernel(scale, 2, 1, 1, 128, 1, 1, 0, a, params, NULL), SUCCESS);
    EXPECT(cuMemsetD32Async(v + 4, 0x40000000, 1, a), SUCCESS);
    EXPECT(cuLaunchKernel(scale, 2, 1, 1, 128, 1, 1, 0, a, params, NULL), SUCCESS);
    EXPECT(cuMemcpyDtoHAsync_v2(values, v, sizeof values, a), SUCCESS);
    EXPECT(cuStreamSynchronize(a), SUCCESS);
    CHECK(values[0] == 729 && values[1] == 6 && values[255] == 729);

    EXPECT(cuMemFree_v2(v), SUCCESS);
    EXPECT(cuMemFreeHost(flag), SUCCESS);
    EXPECT(cuStreamDestroy_v2(a), SUCCESS);
    EXPECT_ERROR(cuStreamSynchronize(a));
    EXPECT_ERROR(cuStreamDestroy_v2(a));
    EXPECT(cuStreamDestroy_v2(b), SUCCESS);
    EXPECT(cuEventDestroy_v2(begin), SUCCESS);
    EXPECT_ERROR(cuEventRecord(begin, NULL));
    EXPECT_ERROR(cuEventDestroy_v2(begin));
    EXPECT_ERROR(cuStreamQuery((CUstream)(uintptr_t)0xabcdef0));
    return finish();
}
