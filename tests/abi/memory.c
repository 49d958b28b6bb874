// Tests allocation, copies, fills and queries, and calls with every kind of wrong address.
#include "abi.h"

CUresult cuPointerSetAttribute(const void *, int, CUdeviceptr);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, unsigned, unsigned);

CUresult cuMemPoolCreate(void **, const void *);
CUresult cuMemPoolDestroy(void *);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);
CUresult cuMemPoolGetAttribute(void *, int, void *);
CUresult cuDeviceGetDefaultMemPool(void **, CUdevice);

enum { USED_CURRENT = 7 };

// Regression test: memory of pools remained after the reset and after the last release of the primary context. The reset
// does not free what streams of other contexts allocated.
static void reset_frees_pools(void) {
    // The members allocType, handleTypes, location.type, location.id, and others that are 0.
    const int properties[22] = {1, 0, 1, 0};
    void *standard, *own;
    size_t before = 0, after = 0, total;
    uint64_t used = 0, used_before = 0;
    CUcontext other, primary;
    CUstream stream;
    CUdeviceptr kept, gone[2];
    unsigned word;
    REQUIRE(cuMemPoolCreate(&own, properties));
    REQUIRE(cuDeviceGetDefaultMemPool(&standard, 0));
    REQUIRE(cuMemPoolGetAttribute(standard, USED_CURRENT, &used_before));
    REQUIRE(cuCtxCreate_v2(&other, 0, 0));
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuMemAllocAsync(&kept, 1 << 20, stream));
    REQUIRE(cuStreamSynchronize(stream));
    REQUIRE(cuCtxPopCurrent_v2(&other));
    for (int released = 0; released < 2; ++released) {
        REQUIRE(cuMemGetInfo_v2(&before, &total));
        REQUIRE(cuMemAllocAsync(&gone[0], 1 << 20, NULL));
        REQUIRE(cuMemAllocFromPoolAsync(&gone[1], 1 << 20, own, NULL));
        EXPECT(cuMemcpyHtoD_v2(gone[0], &word, 4), SUCCESS);
        if (released) {
            REQUIRE(cuDevicePrimaryCtxRelease_v2(0));
            REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0));
        } else {
            REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        }
        EXPECT(cuMemcpyDtoH_v2(&word, gone[0], 4), INVALID_VALUE);
        EXPECT(cuMemcpyDtoH_v2(&word, gone[1], 4), INVALID_VALUE);
        EXPECT(cuMemFree_v2(gone[0]), INVALID_VALUE);
        EXPECT(cuMemFreeAsync(gone[1], NULL), INVALID_VALUE);
        REQUIRE(cuMemGetInfo_v2(&after, &total));
        CHECK(after >= before);
        EXPECT(cuMemPoolGetAttribute(own, USED_CURRENT, &used), SUCCESS);
        CHECK(used == 0);
        EXPECT(cuMemPoolGetAttribute(standard, USED_CURRENT, &used), SUCCESS);
        CHECK(used == used_before + (1 << 20));
    }
    EXPECT(cuMemcpyDtoH_v2(&word, kept, 4), SUCCESS);
    EXPECT(cuMemFree_v2(kept), SUCCESS);
    EXPECT(cuCtxDestroy_v2(other), SUCCESS);
    EXPECT(cuMemPoolDestroy(own), SUCCESS);
}

// Checks that an allocation can use memory that earlier work of the same stream frees, before the stream has executed
// the free.
static void in_turns(size_t total) {
    CUstream stream;
    CUdeviceptr place, at[3] = {0}, one;
    unsigned *flag;
    size_t part = total / 5 * 2 / 256 * 256, before = 0, after = 0;
    REQUIRE(cuMemHostAlloc((void **)&flag, 64, 0));
    *flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&place, flag, 0));
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuMemGetInfo_v2(&before, &total));
    EXPECT(cuStreamWaitValue32_v2(stream, place, 1, 1), SUCCESS);
    for (unsigned i = 0; i < 12; ++i) {
        EXPECT(cuMemAllocAsync(&one, part, stream), SUCCESS);
        EXPECT(cuMemsetD32Async(one + part - 4, 7 + i, 1, stream), SUCCESS);
        EXPECT(cuMemcpyDtoHAsync_v2(flag + 1 + i, one + part - 4, 4, stream), SUCCESS);
        EXPECT(cuMemFreeAsync(one, stream), SUCCESS);
    }
    // Each part has two fifths of the memory, so a third part does not fit.
    EXPECT(cuMemAllocAsync(at, part, stream), SUCCESS);
    EXPECT(cuMemAllocAsync(at + 1, part, stream), SUCCESS);
    EXPECT(cuMemAllocAsync(at + 2, part, stream), OUT_OF_MEMORY);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    EXPECT(cuMemAllocAsync(at + 2, part, stream), OUT_OF_MEMORY);
    EXPECT(cuMemAlloc_v2(at + 2, part), OUT_OF_MEMORY);
    EXPECT(cuMemFreeAsync(at[0], stream), SUCCESS);
    EXPECT(cuMemFree_v2(at[1]), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    for (unsigned i = 0; i < 12; ++i)
        CHECK(flag[1 + i] == 7 + i);
    REQUIRE(cuMemGetInfo_v2(&after, &total));
    CHECK(after == before);
    REQUIRE(cuStreamDestroy_v2(stream));
    REQUIRE(cuMemFreeHost(flag));
}

int main(void) {
    start();
    size_t before = 0, total = 0, after = 0, bytes = 0;
    REQUIRE(cuMemGetInfo_v2(&before, &total));
    CHECK(before > 0 && before <= total);

    CUdeviceptr a = 0, b = 0, base = 0;
    EXPECT(cuMemAlloc_v2(&a, 0), INVALID_VALUE);
    EXPECT(cuMemAlloc_v2(NULL, 16), INVALID_VALUE);
    EXPECT(cuMemAlloc_v2(&a, (size_t)1 << 60), OUT_OF_MEMORY);
    EXPECT(cuMemAlloc_v2(&a, SIZE_MAX), OUT_OF_MEMORY);
    REQUIRE(cuMemAlloc_v2(&a, 1000));
    REQUIRE(cuMemAlloc_v2(&b, 4 << 20));
    CHECK(a % 256 == 0 && b % 256 == 0 && a != b);
    REQUIRE(cuMemGetInfo_v2(&after, &total));
    CHECK(after + (4 << 20) <= before);

    unsigned char out[1000], in[1000];
    for (int i = 0; i < 1000; ++i)
        in[i] = (unsigned char)(i * 7);
    EXPECT(cuMemcpyHtoD_v2(a, in, 1000), SUCCESS);
    EXPECT(cuMemcpyDtoD_v2(b + 5, a, 1000), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(out, b + 5, 1000), SUCCESS);
    CHECK(memcmp(in, out, 1000) == 0);

    unsigned words[250];
    EXPECT(cuMemsetD8_v2(a, 0x11, 1000), SUCCESS);
    EXPECT(cuMemsetD16_v2(a + 4, 0x2233, 2), SUCCESS);
    EXPECT(cuMemsetD32_v2(a + 8, 0x44556677, 3), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(words, a, 1000), SUCCESS);
    CHECK(words[0] == 0x11111111 && words[1] == 0x22332233 && words[2] == 0x44556677);
    CHECK(words[4] == 0x44556677 && words[5] == 0x11111111 && words[249] == 0x11111111);
    EXPECT(cuMemsetD32_v2(a + 2, 0, 1), INVALID_VALUE);
    EXPECT(cuMemsetD16_v2(a + 1, 0, 1), INVALID_VALUE);

    EXPECT(cuMemGetAddressRange_v2(&base, &bytes, a + 999), SUCCESS);
    CHECK(base == a && bytes == 1000);
    EXPECT_ERROR(cuMemGetAddressRange_v2(&base, &bytes, 0x10));

    // A wrong device pointer is an error; the driver does not dereference it.
    EXPECT(cuMemcpyHtoD_v2(0, in, 8), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD_v2(0x10, in, 8), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD_v2(~0ull - 4, in, 8), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD_v2(b, in, SIZE_MAX), INVALID_VALUE);
    EXPECT(cuMemcpyDtoH_v2(out, b + (4 << 20) - 4, 8), INVALID_VALUE);
    EXPECT(cuMemsetD8_v2(b + (4 << 20) - 4, 0, 8), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD_v2(a, in, 0), SUCCESS);
    EXPECT(cuMemcpyHtoD_v2(a, NULL, 8), INVALID_VALUE);

    EXPECT(cuMemFree_v2(a + 4), INVALID_VALUE);
    EXPECT(cuMemFree_v2(0), SUCCESS);
    EXPECT(cuMemFree_v2(a), SUCCESS);
    EXPECT(cuMemFree_v2(a), INVALID_VALUE);
    EXPECT(cuMemcpyDtoH_v2(out, a, 8), INVALID_VALUE);
    EXPECT(cuMemFree_v2(b), SUCCESS);
    REQUIRE(cuMemGetInfo_v2(&after, &total));
    CHECK(after == before);

    void *host = NULL;
    REQUIRE(cuMemHostAlloc(&host, 4096, 2));
    memset(host, 3, 4096);
    EXPECT(cuMemHostGetDevicePointer_v2(&a, host, 0), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(out, a, 16), SUCCESS);
    CHECK(out[15] == 3);
    int kind = 0;
    EXPECT(cuPointerGetAttribute(&kind, 2, (CUdeviceptr)(uintptr_t)host), SUCCESS);
    CHECK(kind == 1);
    EXPECT(cuMemFreeHost(host), SUCCESS);
    EXPECT(cuMemFreeHost(host), INVALID_VALUE);

    REQUIRE(cuMemAllocManaged(&a, 4096, 1));
    *(volatile int *)(uintptr_t)a = 42;
    EXPECT(cuMemcpyDtoH_v2(words, a, 4), SUCCESS);
    CHECK(words[0] == 42);
    EXPECT(cuPointerGetAttribute(&kind, 2, a), SUCCESS);
    CHECK(kind == 2);
    // Whether copies are synchronous is an attribute of the whole allocation.
    unsigned synchronous = 1;
    EXPECT(cuPointerSetAttribute(&synchronous, 6, a + 8), SUCCESS);
    EXPECT(cuPointerGetAttribute(&kind, 6, a), SUCCESS);
    CHECK(kind == 1);
    synchronous = 0;
    EXPECT(cuPointerSetAttribute(&synchronous, 6, a), SUCCESS);
    EXPECT(cuPointerGetAttribute(&kind, 6, a), SUCCESS);
    CHECK(kind == 0);
    EXPECT(cuMemFree_v2(a), SUCCESS);
    in_turns(total);
    reset_frees_pools();
    return finish();
}
