// Planted defects in calls of the API, and clean programs that do the same without the defect, beside those of
// `checked.c`. The argument selects one; `ffi/tests/checks.rs` runs them, and a line with the comment `@name` is the line
// that a report must name.
#include "abi.h"

typedef struct {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    CUdeviceptr src_device;
    void *src_array;
    size_t src_pitch, dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    CUdeviceptr dst_device;
    void *dst_array;
    size_t dst_pitch, width, height;
} Copy2D;
enum { HOST = 1, DEVICE = 2 };

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpy2D_v2(const Copy2D *copy);
CUresult cuMemHostUnregister(void *);
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer;
    REQUIRE(cuMemAlloc_v2(&pointer, bytes)); // @alloc
    return pointer;
}

// Copies a part of 4 rows of 64 bytes, which begin 100 bytes apart on the device.
static CUresult copy_rows(CUdeviceptr from, void *to) {
    Copy2D copy = {.src_type = DEVICE, .src_device = from, .src_pitch = 100, .dst_type = HOST, .dst_host = to,
                   .dst_pitch = 64, .width = 64, .height = 4};
    return cuMemcpy2D_v2(&copy); // @rows
}

static void ranges(int clean) {
    char host[1000] = {0};
    CUdeviceptr block = allocate(400);
    REQUIRE(cuMemsetD8_v2(block, 0, 400));
    if (clean) {
        REQUIRE(cuMemcpy(block, (CUdeviceptr)(uintptr_t)host, 400));
        REQUIRE(cuMemcpy((CUdeviceptr)(uintptr_t)host, block, 400));
        REQUIRE(copy_rows(block, host));
        REQUIRE(cuMemsetD2D32_v2(block, 100, 1, 25, 4));
        REQUIRE(cuMemcpyHtoDAsync_v2(block, host, 400, NULL));
        REQUIRE(cuCtxSynchronize());
    } else {
        EXPECT_ERROR(cuMemcpy(block, (CUdeviceptr)(uintptr_t)host, 401)); // @unified
        EXPECT_ERROR(copy_rows(block + 37, host));
        EXPECT_ERROR(cuMemsetD2D32_v2(block, 100, 1, 25, 5)); // @fill-rows
        EXPECT_ERROR(cuMemcpyHtoDAsync_v2(block, host, 500, NULL)); // @async
    }
    REQUIRE(cuMemFree_v2(block));
}

static void host_memory(int clean) {
    static char own[8192];
    CUdeviceptr block = allocate(400);
    CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
    void *pinned;
    REQUIRE(cuMemHostAlloc(&pinned, 100, 0));
    REQUIRE(cuMemHostRegister_v2(own, 4096, 0));
    if (clean) {
        REQUIRE(cuMemcpyHtoD_v2(block, own, 400));
        REQUIRE(cuMemHostUnregister(own));
        REQUIRE(cuMemFreeHost(pinned));
    } else {
        EXPECT_ERROR(cuMemcpyHtoD_v2(block, (void *)64, 400)); // @unreadable
        EXPECT_ERROR(cuMemcpyDtoH_v2(NULL, block, 400)); // @unwritable
        EXPECT_ERROR(cuMemHostUnregister(pinned)); // @unregister-pinned
        EXPECT_ERROR(cuMemHostUnregister(own + 16)); // @unregister-inside
        EXPECT_ERROR(cuMemHostUnregister(own + 4096)); // @unregister
        REQUIRE(cuMemHostUnregister(own));
        EXPECT_ERROR(cuMemHostUnregister(own)); // @unregister-twice
        REQUIRE(cuMemFreeHost(pinned));
        EXPECT_ERROR(cuMemFreeHost(pinned)); // @free-host-twice
        EXPECT_ERROR(cuMemFreeHost((char *)own)); // @free-foreign
    }
    REQUIRE(cuMemFree_v2(block));
}

// Uses objects of a context after the context is reset.
static void reset(int clean) {
    CUdeviceptr block = allocate(400);
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function;
    int host;
    void *params[] = {&block};
    REQUIRE(cuMemsetD8_v2(block, 0, 400));
    REQUIRE(cuStreamCreate(&stream, 0));
    REQUIRE(cuEventCreate(&event, 0));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&function, module, "poke"));
    if (clean) {
        REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        REQUIRE(cuEventRecord(event, stream));
        REQUIRE(cuMemcpyDtoH_v2(&host, block, 4));
        REQUIRE(cuMemFree_v2(block));
        REQUIRE(cuStreamDestroy_v2(stream));
        REQUIRE(cuEventDestroy_v2(event));
        REQUIRE(cuModuleUnload(module));
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        return;
    }
    REQUIRE(cuDevicePrimaryCtxReset_v2(0)); // @reset
    EXPECT_ERROR(cuMemcpyDtoH_v2(&host, block, 4)); // @copy-after-reset
    EXPECT_ERROR(cuStreamSynchronize(stream)); // @stream-after-reset
    EXPECT_ERROR(cuEventRecord(event, NULL)); // @event-after-reset
    EXPECT_ERROR(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)); // @launch-after-reset
    EXPECT_ERROR(cuModuleUnload(module)); // @unload-after-reset
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    int clean = count > 2;
    start();
    if (!strcmp(what, "ranges"))
        ranges(clean);
    else if (!strcmp(what, "host"))
        host_memory(clean);
    else if (!strcmp(what, "reset"))
        reset(clean);
    else
        return 2;
    return finish();
}
