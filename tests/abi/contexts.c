// Tests current contexts: each thread has its own stack of contexts, and the primary context has a reference count.
#include "abi.h"

#include <pthread.h>

static void *another_thread(void *expected) {
    CUcontext current = (CUcontext)1;
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == NULL);
    EXPECT(cuCtxSetCurrent((CUcontext)expected), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    return NULL;
}

int main(void) {
    CUdevice device;
    CUcontext context = NULL, current = (CUcontext)1, again = NULL, own = NULL;
    CUdeviceptr pointer;
    REQUIRE(cuInit(0));
    REQUIRE(cuDeviceGet(&device, 0));
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == NULL);
    EXPECT(cuCtxSynchronize(), INVALID_CONTEXT);
    EXPECT(cuCtxGetDevice(&device), INVALID_CONTEXT);
    EXPECT(cuCtxPopCurrent_v2(&current), INVALID_CONTEXT);
    EXPECT(cuMemAlloc_v2(&pointer, 16), INVALID_CONTEXT);

    unsigned flags = 9;
    int active = 9;
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active), SUCCESS);
    CHECK(active == 0);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuDevicePrimaryCtxRetain(&again, device));
    CHECK(context == again && context != NULL);
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active), SUCCESS);
    CHECK(active == 1);
    EXPECT(cuDevicePrimaryCtxRetain(&again, 77), INVALID_DEVICE);

    // `cuDevicePrimaryCtxRetain` does not make the context current.
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == NULL);
    REQUIRE(cuCtxPushCurrent_v2(context));
    EXPECT(cuCtxGetDevice(&device), SUCCESS);
    CHECK(device == 0);
    EXPECT(cuCtxSynchronize(), SUCCESS);

    // `cuCtxCreate` pushes the new context onto the stack.
    REQUIRE(cuCtxCreate_v2(&own, 0, device));
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == own && own != context);
    EXPECT(cuCtxPopCurrent_v2(&current), SUCCESS);
    CHECK(current == own);
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == context);
    EXPECT(cuCtxDestroy_v2(own), SUCCESS);
    EXPECT_ERROR(cuCtxDestroy_v2(own));
    EXPECT_ERROR(cuCtxPushCurrent_v2(own));
    EXPECT_ERROR(cuCtxSetCurrent((CUcontext)(uintptr_t)0xdeadbeef));

    pthread_t thread;
    pthread_create(&thread, NULL, another_thread, context);
    pthread_join(thread, NULL);

    EXPECT(cuCtxSetCurrent(NULL), SUCCESS);
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == NULL);
    EXPECT(cuDevicePrimaryCtxRelease_v2(device), SUCCESS);
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active), SUCCESS);
    CHECK(active == 1);
    EXPECT(cuDevicePrimaryCtxRelease_v2(device), SUCCESS);
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active), SUCCESS);
    CHECK(active == 0);
    EXPECT(cuDevicePrimaryCtxRelease_v2(device), INVALID_CONTEXT);
    return finish();
}
