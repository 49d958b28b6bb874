// Tests virtual memory management: reserved addresses, physical allocations, mappings and access rights, as kernels,
// copies and pointer attributes see them, and the error of each wrong call.
#include "abi.h"

#include <unistd.h>

typedef unsigned long long Handle;
typedef struct {
    int type, id;
} Location;
typedef struct {
    int type, handles;
    Location location;
    void *windows;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} Properties;
typedef struct {
    Location location;
    int flags;
} Access;

CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
CUresult cuMemRelease(Handle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t);
CUresult cuMemGetAccess(unsigned long long *, const Location *, CUdeviceptr);
CUresult cuMemExportToShareableHandle(void *, Handle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(Handle *, void *, int);
CUresult cuMemGetAllocationGranularity(size_t *, const Properties *, int);
CUresult cuMemGetAllocationPropertiesFromHandle(Properties *, Handle);
CUresult cuMemRetainAllocationHandle(Handle *, void *);
CUresult cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t, int, unsigned long long);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);

enum { NONE = 0, READ = 1, BOTH = 3, DEVICE = 1, DESCRIPTOR = 1 };
static const size_t G = 2 << 20;
static const Properties plain = {.type = 1, .location = {DEVICE, 0}};
static const Properties shared = {.type = 1, .handles = DESCRIPTOR, .location = {DEVICE, 0}};

static void allow(CUdeviceptr at, size_t bytes, int flags) {
    Access access = {{DEVICE, 0}, flags};
    EXPECT(cuMemSetAccess(at, bytes, &access, 1), SUCCESS);
}

static void aliases(CUmodule module) {
    CUdeviceptr base;
    Handle handle, again;
    size_t free_before, free_now, total, granularity = 0;
    REQUIRE(cuMemGetAllocationGranularity(&granularity, &plain, 0));
    CHECK(granularity == G);
    REQUIRE(cuMemGetInfo_v2(&free_before, &total));
    REQUIRE(cuMemAddressReserve(&base, 8 * G, 0, 0, 0));
    CHECK(base % G == 0);
    REQUIRE(cuMemCreate(&handle, 2 * G, &plain, 0));
    REQUIRE(cuMemGetInfo_v2(&free_now, &total));
    CHECK(free_before - free_now == 2 * G);
    // Maps the same memory at two neighbouring addresses. A kernel runs across the border of the two mappings.
    REQUIRE(cuMemMap(base, 2 * G, 0, handle, 0));
    REQUIRE(cuMemMap(base + 2 * G, 2 * G, 0, handle, 0));
    allow(base, 4 * G, BOTH);
    float *values = malloc(4 * G);
    for (size_t i = 0; i < G; ++i)
        values[i] = (float)(i % 1000);
    // This copy covers parts of both mappings.
    REQUIRE(cuMemcpyHtoD_v2(base + G, values, 2 * G));
    CUfunction scale;
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    float factor = 2;
    unsigned count = 256;
    CUdeviceptr place = base + 2 * G - 512;
    void *arguments[] = {&place, &factor, &count};
    REQUIRE(cuLaunchKernel(scale, 1, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuCtxSynchronize());
    float *seen = malloc(4 * G);
    REQUIRE(cuMemcpyDtoH_v2(seen, base, 4 * G));
    CHECK(memcmp(seen, (char *)seen + 2 * G, 2 * G) == 0);
    // The copy wrote its first half to the upper half of the allocation and its second half to the lower half. Then the
    // kernel doubled the last 128 and the first 128 elements.
    for (size_t i = 0; i < 2 * G / 4; ++i) {
        size_t from = (i + G / 4) % (2 * G / 4);
        float want = values[from] * (i < 128 || i >= 2 * G / 4 - 128 ? 2 : 1);
        if (seen[i] != want) {
            printf("element %zu: %g, not %g\n", i, seen[i], want);
            ++failures;
            break;
        }
    }
    // Pointer attributes describe the range, the mapping and the allocation.
    unsigned long long value = 0;
    int number = 0;
    EXPECT(cuPointerGetAttribute(&value, 11, base + 3 * G), SUCCESS);
    CHECK(value == base);
    EXPECT(cuPointerGetAttribute(&value, 12, base + 3 * G), SUCCESS);
    CHECK(value == 8 * G);
    EXPECT(cuPointerGetAttribute(&value, 19, base + 3 * G), SUCCESS);
    CHECK(value == base + 2 * G);
    EXPECT(cuPointerGetAttribute(&value, 18, base + 3 * G), SUCCESS);
    CHECK(value == 2 * G);
    EXPECT(cuPointerGetAttribute(&number, 10, base), SUCCESS);
    CHECK(number == 0);
    EXPECT(cuPointerGetAttribute(&number, 9, base), SUCCESS);
    CHECK(number == 0);
    EXPECT(cuPointerGetAttribute(&number, 16, base), SUCCESS);
    CHECK(number == BOTH);
    EXPECT(cuMemFree_v2(base), INVALID_VALUE);
    EXPECT(cuMemFreeAsync(base, NULL), INVALID_VALUE);
    // The retained handle of an address is that of the mapped allocation, and must be released separately.
    REQUIRE(cuMemRetainAllocationHandle(&again, (void *)(base + 3 * G + 5)));
    CHECK(again == handle);
    EXPECT(cuMemRelease(handle), SUCCESS);
    EXPECT(cuMemRelease(again), SUCCESS);
    EXPECT(cuMemRelease(handle), INVALID_VALUE);
    EXPECT(cuMemMap(base + 4 * G, G, 0, handle, 0), INVALID_VALUE);
    REQUIRE(cuMemRetainAllocationHandle(&again, (void *)base));
    CHECK(again == handle);
    EXPECT(cuMemRelease(again), SUCCESS);
    REQUIRE(cuMemGetInfo_v2(&free_now, &total));
    CHECK(free_before - free_now == 2 * G);
    EXPECT(cuMemUnmap(base, 4 * G), SUCCESS);
    REQUIRE(cuMemGetInfo_v2(&free_now, &total));
    CHECK(free_before == free_now);
    EXPECT(cuPointerGetAttribute(&value, 11, base), INVALID_VALUE);
    EXPECT(cuMemAddressFree(base, 8 * G), SUCCESS);
    free(values);
    free(seen);
}

static void mistakes(void) {
    CUdeviceptr base, other;
    Handle handle, kept;
    EXPECT(cuMemAddressReserve(NULL, G, 0, 0, 0), INVALID_VALUE);
    EXPECT(cuMemAddressReserve(&base, 0, 0, 0, 0), INVALID_VALUE);
    EXPECT(cuMemAddressReserve(&base, G + 1, 0, 0, 0), INVALID_VALUE);
    EXPECT(cuMemAddressReserve(&base, G, 3 * G, 0, 0), INVALID_VALUE);
    EXPECT(cuMemAddressReserve(&base, G, 0, 0, 1), INVALID_VALUE);
    EXPECT(cuMemAddressReserve(&base, (size_t)1 << 60, 0, 0, 0), OUT_OF_MEMORY);
    REQUIRE(cuMemAddressReserve(&base, 2 * G, 8 * G, 0, 0));
    CHECK(base % (8 * G) == 0);
    REQUIRE(cuMemAddressReserve(&other, G, 0, base, 0));
    CHECK(other != base);
    EXPECT(cuMemAddressFree(other, G), SUCCESS);
    EXPECT(cuMemAddressFree(other, G), INVALID_VALUE);
    Properties wrong = plain;
    EXPECT(cuMemCreate(NULL, G, &plain, 0), INVALID_VALUE);
    EXPECT(cuMemCreate(&handle, G, NULL, 0), INVALID_VALUE);
    EXPECT(cuMemCreate(&handle, G, &plain, 1), INVALID_VALUE);
    EXPECT(cuMemCreate(&handle, 0, &plain, 0), INVALID_VALUE);
    EXPECT(cuMemCreate(&handle, 4096, &plain, 0), INVALID_VALUE);
    EXPECT(cuMemCreate(&handle, (size_t)1 << 50, &plain, 0), OUT_OF_MEMORY);
    wrong.type = 0;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), INVALID_VALUE);
    wrong = plain;
    wrong.location.id = 99;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), INVALID_DEVICE);
    wrong = plain;
    wrong.location.type = 9;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), INVALID_VALUE);
    wrong = plain;
    wrong.handles = 2;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), NOT_SUPPORTED);
    wrong.handles = 64;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), INVALID_VALUE);
    wrong = plain;
    wrong.usage = 1;
    EXPECT(cuMemCreate(&handle, G, &wrong, 0), NOT_SUPPORTED);
    size_t granularity;
    EXPECT(cuMemGetAllocationGranularity(NULL, &plain, 0), INVALID_VALUE);
    EXPECT(cuMemGetAllocationGranularity(&granularity, &plain, 7), INVALID_VALUE);
    EXPECT(cuMemGetAllocationGranularity(&granularity, NULL, 0), INVALID_VALUE);
    REQUIRE(cuMemCreate(&kept, G, &plain, 0));
    EXPECT(cuMemMap(base, G, 0, kept, 1), INVALID_VALUE);
    EXPECT(cuMemMap(base, G, G, kept, 0), INVALID_VALUE);
    EXPECT(cuMemMap(base, 2 * G, 0, kept, 0), INVALID_VALUE);
    EXPECT(cuMemMap(base + 512, G, 0, kept, 0), INVALID_VALUE);
    EXPECT(cuMemMap(base + 2 * G, G, 0, kept, 0), INVALID_VALUE);
    EXPECT(cuMemMap(0, G, 0, kept, 0), INVALID_VALUE);
    EXPECT(cuMemMap(base, G, 0, kept + 1, 0), INVALID_VALUE);
    EXPECT(cuMemMap(base, G, 0, 0, 0), INVALID_VALUE);
    REQUIRE(cuMemMap(base, G, 0, kept, 0));
    EXPECT(cuMemMap(base, G, 0, kept, 0), INVALID_VALUE);
    EXPECT(cuMemAddressFree(base, 2 * G), INVALID_VALUE);
    EXPECT(cuMemUnmap(base, 2 * G), INVALID_VALUE);
    EXPECT(cuMemUnmap(base + G, G), INVALID_VALUE);
    Access access = {{DEVICE, 0}, BOTH};
    EXPECT(cuMemSetAccess(base, G, NULL, 1), INVALID_VALUE);
    EXPECT(cuMemSetAccess(base, 2 * G, &access, 1), INVALID_VALUE);
    access.flags = 2;
    EXPECT(cuMemSetAccess(base, G, &access, 1), INVALID_VALUE);
    access = (Access){{DEVICE, 50}, BOTH};
    EXPECT(cuMemSetAccess(base, G, &access, 1), INVALID_DEVICE);
    access = (Access){{2, 0}, BOTH};
    EXPECT(cuMemSetAccess(base, G, &access, 1), INVALID_VALUE);
    unsigned long long flags = 9;
    Location location = {DEVICE, 0};
    EXPECT(cuMemGetAccess(&flags, &location, base), SUCCESS);
    CHECK(flags == NONE);
    allow(base, G, READ);
    EXPECT(cuMemGetAccess(&flags, &location, base + 77), SUCCESS);
    CHECK(flags == READ);
    EXPECT(cuMemGetAccess(&flags, &location, base + G), INVALID_VALUE);
    EXPECT(cuMemGetAccess(NULL, &location, base), INVALID_VALUE);
    // A copy to read-only memory fails.
    char bytes[16] = {0};
    EXPECT_ERROR(cuMemcpyHtoD_v2(base, bytes, sizeof bytes));
    EXPECT(cuMemcpyDtoH_v2(bytes, base, sizeof bytes), SUCCESS);
    EXPECT(cuMemcpyDtoH_v2(bytes, base + G - 8, sizeof bytes), INVALID_VALUE);
    int descriptor = -1;
    EXPECT(cuMemExportToShareableHandle(&descriptor, kept, DESCRIPTOR, 0), INVALID_VALUE);
    EXPECT(cuMemExportToShareableHandle(NULL, kept, DESCRIPTOR, 0), INVALID_VALUE);
    EXPECT(cuMemImportFromShareableHandle(&handle, (void *)-1l, DESCRIPTOR), INVALID_VALUE);
    EXPECT(cuMemImportFromShareableHandle(&handle, (void *)1, DESCRIPTOR), INVALID_VALUE);
    EXPECT(cuMemImportFromShareableHandle(&handle, (void *)1, 8), NOT_SUPPORTED);
    EXPECT(cuMemRetainAllocationHandle(&handle, bytes), INVALID_VALUE);
    EXPECT(cuMemGetHandleForAddressRange(&descriptor, base, G, 1, 0), NOT_SUPPORTED);
    EXPECT(cuMemGetHandleForAddressRange(&descriptor, base + 1, G, 1, 0), INVALID_VALUE);
    EXPECT(cuMemUnmap(base, G), SUCCESS);
    EXPECT(cuMemAddressFree(base, 2 * G), SUCCESS);
    EXPECT(cuMemRelease(kept), SUCCESS);
    EXPECT(cuMemRelease(0), INVALID_VALUE);
}

// Exports and imports memory in one process. The descriptor is valid after the handle has been released.
static void descriptors(void) {
    CUdeviceptr base;
    Handle handle, imported;
    int descriptor = -1;
    Properties properties;
    REQUIRE(cuMemAddressReserve(&base, 2 * G, 0, 0, 0));
    REQUIRE(cuMemCreate(&handle, G, &shared, 0));
    EXPECT(cuMemGetAllocationPropertiesFromHandle(&properties, handle), SUCCESS);
    CHECK(memcmp(&properties, &shared, sizeof shared) == 0);
    REQUIRE(cuMemMap(base, G, 0, handle, 0));
    allow(base, G, BOTH);
    REQUIRE(cuMemsetD32_v2(base, 0x12345678, G / 4));
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemExportToShareableHandle(&descriptor, handle, DESCRIPTOR, 0));
    CHECK(descriptor >= 0);
    EXPECT(cuMemExportToShareableHandle(&descriptor, handle, 8, 0), NOT_SUPPORTED);
    EXPECT(cuMemUnmap(base, G), SUCCESS);
    EXPECT(cuMemRelease(handle), SUCCESS);
    REQUIRE(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)descriptor, DESCRIPTOR));
    close(descriptor);
    EXPECT(cuMemGetAllocationPropertiesFromHandle(&properties, imported), SUCCESS);
    CHECK(properties.location.type == DEVICE && properties.location.id == 0 && properties.handles == DESCRIPTOR);
    REQUIRE(cuMemMap(base + G, G, 0, imported, 0));
    allow(base + G, G, BOTH);
    unsigned word = 0;
    EXPECT(cuMemcpyDtoH_v2(&word, base + 2 * G - 4, 4), SUCCESS);
    CHECK(word == 0x12345678);
    EXPECT(cuMemUnmap(base + G, G), SUCCESS);
    EXPECT(cuMemRelease(imported), SUCCESS);
    EXPECT(cuMemAddressFree(base, 2 * G), SUCCESS);
}

// Tests memory of the host to which the host and a device have access.
static void on_host(CUmodule module) {
    Properties host = {.type = 1, .location = {2, 0}}, seen;
    Access both[2] = {{{DEVICE, 0}, BOTH}, {{2, 0}, BOTH}};
    CUdeviceptr base;
    Handle handle;
    size_t free_before, free_now, total;
    REQUIRE(cuMemGetInfo_v2(&free_before, &total));
    REQUIRE(cuMemCreate(&handle, G, &host, 0));
    EXPECT(cuMemGetAllocationPropertiesFromHandle(&seen, handle), SUCCESS);
    CHECK(seen.location.type == 2);
    REQUIRE(cuMemGetInfo_v2(&free_now, &total));
    CHECK(free_before == free_now);
    REQUIRE(cuMemAddressReserve(&base, G, 0, 0, 0));
    REQUIRE(cuMemMap(base, G, 0, handle, 0));
    REQUIRE(cuMemSetAccess(base, G, both, 2));
    CUfunction poke;
    REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
    void *arguments[] = {&base};
    REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuCtxSynchronize());
    CHECK(*(unsigned *)base == 7);
    unsigned long long flags = 0;
    EXPECT(cuMemGetAccess(&flags, &both[1].location, base), SUCCESS);
    CHECK(flags == BOTH);
    EXPECT(cuMemUnmap(base, G), SUCCESS);
    EXPECT(cuMemRelease(handle), SUCCESS);
    EXPECT(cuMemAddressFree(base, G), SUCCESS);
}

// Checks the faults of kernels that write to addresses without a mapping, without write access, or after an unmap.
// `way` selects the case.
static void faults(int way) {
    CUdeviceptr base;
    Handle handle;
    CUmodule module;
    CUfunction poke;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
    REQUIRE(cuMemAddressReserve(&base, 2 * G, 0, 0, 0));
    REQUIRE(cuMemCreate(&handle, G, &plain, 0));
    CUdeviceptr place = base + 64;
    if (way != 0)
        REQUIRE(cuMemMap(base, G, 0, handle, 0));
    if (way == 1)
        allow(base, G, READ);
    if (way == 2) {
        allow(base, G, BOTH);
        place = base + G;
    }
    if (way == 3) {
        allow(base, G, BOTH);
        allow(base, G, NONE);
    }
    if (way == 4) {
        allow(base, G, BOTH);
        EXPECT(cuMemUnmap(base, G), SUCCESS);
    }
    void *arguments[] = {&place};
    REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    EXPECT(cuDevicePrimaryCtxReset_v2(0), SUCCESS);
    // Virtual memory belongs to no context, so it stays valid after the reset.
    if (way == 1 || way == 3) {
        allow(base, G, BOTH);
        EXPECT(cuMemsetD8_v2(base, 1, G), SUCCESS);
        EXPECT(cuCtxSynchronize(), SUCCESS);
        EXPECT(cuMemUnmap(base, G), SUCCESS);
    } else if (way == 2) {
        EXPECT(cuMemUnmap(base, G), SUCCESS);
    }
    EXPECT(cuMemRelease(handle), SUCCESS);
    EXPECT(cuMemAddressFree(base, 2 * G), SUCCESS);
}

int main(void) {
    start();
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    int value = 0;
    EXPECT(cuDeviceGetAttribute(&value, 102, 0), SUCCESS);
    CHECK(value == 1);
    aliases(module);
    mistakes();
    descriptors();
    on_host(module);
    for (int way = 0; way < 5; ++way)
        faults(way);
    return finish();
}
