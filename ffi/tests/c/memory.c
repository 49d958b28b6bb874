/* Memory of all kinds, copies and fills. */
#include "driver.h"

enum { HOST = 1, DEVICE = 2 };

int main(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));

    unsigned char host[256], back[256];
    for (int i = 0; i < 256; i++)
        host[i] = (unsigned char)i;
    CUdeviceptr a, b;
    OK(cuMemAlloc_v2(&a, 256));
    OK(cuMemAlloc_v2(&b, 256));
    CHECK(a % 256 == 0 && b % 256 == 0);
    OK(cuMemcpyHtoD_v2(a, host, 256));
    OK(cuMemcpyDtoD_v2(b + 16, a, 240));
    OK(cuMemsetD8_v2(b, 0xaa, 16));
    OK(cuMemcpyDtoH_v2(back, b, 256));
    for (int i = 0; i < 256; i++)
        CHECK(back[i] == (i < 16 ? 0xaa : i - 16));
    OK(cuMemsetD16_v2(a, 0x1234, 3));
    OK(cuMemsetD32_v2(a + 8, 0xdeadbeef, 2));
    OK(cuMemcpyDtoH_v2(back, a, 32));
    unsigned char wanted[] = {0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 6,  7,  0xef,
                              0xbe, 0xad, 0xde, 0xef, 0xbe, 0xad, 0xde, 16, 17};
    CHECK(memcmp(back, wanted, sizeof wanted) == 0);

    /* A rectangle of 5 bytes by 3 rows, from host to pitched memory and back. */
    CUdeviceptr rows;
    size_t pitch = 0;
    OK(cuMemAllocPitch_v2(&rows, &pitch, 5, 3, 4));
    CHECK(pitch >= 5);
    OK(cuMemsetD2D8_v2(rows, pitch, 0, 5, 3));
    CUDA_MEMCPY2D copy = {.srcMemoryType = HOST, .srcHost = host, .srcPitch = 16,
                          .srcXInBytes = 2, .srcY = 1,
                          .dstMemoryType = DEVICE, .dstDevice = rows, .dstPitch = pitch,
                          .WidthInBytes = 5, .Height = 3};
    OK(cuMemcpy2D_v2(&copy));
    for (int row = 0; row < 3; row++) {
        OK(cuMemcpyDtoH_v2(back, rows + row * pitch, 5));
        CHECK(memcmp(back, host + 16 * (row + 1) + 2, 5) == 0);
    }

    /* Pinned memory has the same address on host and device; the host can access managed memory directly. */
    unsigned *pinned;
    CUdeviceptr seen;
    OK(cuMemHostAlloc((void **)&pinned, 64, 2));
    OK(cuMemHostGetDevicePointer_v2(&seen, pinned, 0));
    OK(cuMemsetD32_v2(seen, 7, 16));
    CHECK(pinned[0] == 7 && pinned[15] == 7);
    CUdeviceptr managed;
    OK(cuMemAllocManaged(&managed, 64, 1));
    *(unsigned *)managed = 99;
    OK(cuMemcpyDtoH_v2(back, managed, 4));
    CHECK(*(unsigned *)back == 99);

    /* Attributes of the pointers. */
    unsigned kind = 0, is_managed = 9;
    CUcontext owner = NULL;
    OK(cuPointerGetAttribute(&kind, 2, a));
    CHECK(kind == DEVICE);
    OK(cuPointerGetAttribute(&kind, 2, (CUdeviceptr)pinned));
    CHECK(kind == HOST);
    OK(cuPointerGetAttribute(&is_managed, 8, managed));
    CHECK(is_managed == 1);
    OK(cuPointerGetAttribute(&owner, 1, a + 100));
    CHECK(owner == context);
    CUdeviceptr start = 0;
    int wants[] = {11, 9, 2}, ordinal = 5;
    void *places[] = {&start, &ordinal, &kind};
    OK(cuPointerGetAttributes(3, wants, places, a + 100));
    CHECK(start == a && ordinal == 0 && kind == DEVICE);
    OK(cuPointerGetAttributes(3, wants, places, (CUdeviceptr)host));
    CHECK(start == 0 && ordinal == -2 && kind == 0);

    size_t before, after, total;
    OK(cuMemGetInfo_v2(&before, &total));
    CUdeviceptr large;
    OK(cuMemAlloc_v2(&large, 64 << 20));
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(before - after >= 64 << 20 && after < total);
    OK(cuMemFree_v2(large));

    OK(cuMemAllocAsync(&large, 1000, 0));
    OK(cuMemsetD8_v2(large, 3, 1000));
    OK(cuMemcpyDtoH_v2(back, large + 999, 1));
    CHECK(back[0] == 3);
    OK(cuMemFreeAsync(large, 0));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(managed));
    OK(cuMemFree_v2(rows));
    OK(cuMemFree_v2(a));
    OK(cuMemFree_v2(b));
    OK(cuMemFree_v2(0));
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
