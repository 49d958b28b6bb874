/* The thread's stack of contexts, and the life of primary contexts. */
#include "driver.h"

enum { INVALID_CONTEXT = 201, INVALID_HANDLE = 400, CONTEXT_IS_DESTROYED = 709 };

static CUcontext current(void) {
    CUcontext context = (CUcontext)1;
    OK(cuCtxGetCurrent(&context));
    return context;
}

int main(void) {
    OK(cuInit(0));
    CHECK(current() == NULL);
    CUcontext a, b, popped;
    OK(cuCtxCreate_v2(&a, 0, 0));
    CHECK(current() == a);
    OK(cuCtxCreate_v2(&b, 0, 0));
    CHECK(a != b && current() == b);
    OK(cuCtxPopCurrent_v2(&popped));
    CHECK(popped == b && current() == a);
    OK(cuCtxPushCurrent_v2(b));
    OK(cuCtxPushCurrent_v2(a));
    CHECK(current() == a);
    OK(cuCtxSetCurrent(b));
    CHECK(current() == b);
    OK(cuCtxSetCurrent(NULL));
    CHECK(current() == b);
    CUstream stream;
    CUdeviceptr memory;
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc_v2(&memory, 64));
    OK(cuCtxDestroy_v2(b));
    CHECK(current() == a);
    EXPECT(INVALID_CONTEXT, cuCtxPushCurrent_v2(b));
    EXPECT(INVALID_HANDLE, cuStreamQuery(stream));
    OK(cuCtxDestroy_v2(a));
    CHECK(current() == NULL);
    EXPECT(INVALID_CONTEXT, cuCtxPopCurrent_v2(&popped));

    CUcontext primary, again;
    unsigned flags = 7;
    int active = 7;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(flags == 0 && active == 0);
    EXPECT(INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    CHECK(primary == again);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active == 1);
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc_v2(&memory, 64));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuMemFree_v2(memory));
    OK(cuStreamCreate(&stream, 1));
    OK(cuDevicePrimaryCtxReset_v2(0));
    EXPECT(INVALID_HANDLE, cuStreamQuery(stream));
    CHECK(current() == primary);
    puts("fine");
    return 0;
}
