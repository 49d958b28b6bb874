/* Pools of every kind and location of memory: default pools, created pools, and their allocations. */
#include "driver.h"

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };
enum { NONE, DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT };
enum { PINNED = 1, MANAGED };
enum { USED = 7, ALLOCATION_TYPE = 9, LOCATION_ID = 11, LOCATION_TYPE = 12, DECOMPRESS = 14 };
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, MEMPOOL = 17 };
enum { OF_HOST = 1, OF_DEVICE = 2 };
enum { NO_ACCESS, READ_WRITE = 3 };

static int attribute(CUmemoryPool pool, int number) {
    int value = -7;
    OK(cuMemPoolGetAttribute(pool, number, &value));
    return value;
}

static unsigned long long used(CUmemoryPool pool) {
    unsigned long long value;
    OK(cuMemPoolGetAttribute(pool, USED, &value));
    return value;
}

/* Allocates from a pool; checks statistics, attributes, and accesses by the host (if permitted) and the device. */
static void use(CUmemoryPool pool, int managed, int location, CUstream stream) {
    CUdeviceptr memory;
    CUmemoryPool from;
    unsigned type = 0, is_managed = 7, value = 0;
    OK(cuMemAllocFromPoolAsync(&memory, 4096, pool, stream));
    CHECK(used(pool) == 4096);
    OK(cuPointerGetAttribute(&type, MEMORY_TYPE, memory));
    OK(cuPointerGetAttribute(&is_managed, IS_MANAGED, memory));
    OK(cuPointerGetAttribute(&from, MEMPOOL, memory));
    CHECK(type == (managed || location == DEVICE ? OF_DEVICE : OF_HOST));
    CHECK((is_managed & 0xff) == (unsigned)managed && from == pool);
    OK(cuMemsetD32Async(memory, 42, 1024, stream));
    OK(cuStreamSynchronize(stream));
    if (managed || location == HOST || location == HOST_NUMA) {
        CHECK(((unsigned *)memory)[1023] == 42);
        ((unsigned *)memory)[1023] = 43;
    } else {
        value = 43;
        OK(cuMemcpyHtoDAsync_v2(memory + 4092, &value, 4, stream));
    }
    OK(cuMemcpyDtoHAsync_v2(&value, memory + 4092, 4, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(value == 43 && used(pool) == 0);
    OK(cuMemAllocFromPoolAsync(&memory, 100, pool, stream));
    OK(cuMemFree_v2(memory));
    CHECK(used(pool) == 0);
    EXPECT(INVALID_VALUE, cuMemFree_v2(memory));
    OK(cuMemAllocFromPoolAsync(&memory, 0, pool, stream));
    CHECK(memory == 0 && used(pool) == 0);
    OK(cuMemFreeAsync(memory, stream));
}

/* Checks the pools of one kind and location of memory. */
static void place(int kind, int location, CUstream stream) {
    CUmemLocation at = {location, location == HOST ? 5 : 0}, device = {DEVICE, 0};
    CUmemPoolProps wanted = {.allocType = kind, .location = at};
    CUmemoryPool own, current, made;
    int access = -1;
    OK(cuMemGetDefaultMemPool(&own, &at, kind));
    OK(cuMemGetMemPool(&current, &at, kind));
    CHECK(own == current);
    CHECK(attribute(own, ALLOCATION_TYPE) == kind);
    CHECK(attribute(own, LOCATION_TYPE) == location && attribute(own, LOCATION_ID) == 0);
    use(own, kind == MANAGED, location, stream);
    OK(cuMemPoolCreate(&made, &wanted));
    CHECK(made != own);
    use(made, kind == MANAGED, location, stream);
    OK(cuMemSetMemPool(&at, kind, made));
    OK(cuMemGetMemPool(&current, &at, kind));
    CHECK(current == made);
    OK(cuMemPoolGetAccess(&access, made, &device));
    CHECK(access == (kind == PINNED && location != DEVICE ? NO_ACCESS : READ_WRITE));
    CUmemAccessDesc grant = {device, READ_WRITE};
    OK(cuMemPoolSetAccess(made, &grant, 1));
    OK(cuMemPoolGetAccess(&access, made, &device));
    CHECK(access == READ_WRITE);
    /* When the current pool is destroyed, the default pool becomes current again. */
    OK(cuMemPoolDestroy(made));
    OK(cuMemGetMemPool(&current, &at, kind));
    CHECK(current == own);
    EXPECT(INVALID_VALUE, cuMemPoolDestroy(own));
}

int main(void) {
    CUcontext context;
    CUstream stream;
    CUmemoryPool pool, other;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuStreamCreate(&stream, 1));
    place(PINNED, DEVICE, stream);
    place(PINNED, HOST, stream);
    place(PINNED, HOST_NUMA, stream);
    place(MANAGED, DEVICE, stream);
    place(MANAGED, HOST, stream);
    place(MANAGED, NONE, stream);

    CUmemLocation device = {DEVICE, 0}, host = {HOST, 0}, none = {NONE, 0}, node = {HOST_NUMA, 0};
    CUmemLocation nowhere = {9, 0}, no_device = {DEVICE, 77};
    OK(cuMemGetDefaultMemPool(&pool, &device, PINNED));
    OK(cuDeviceGetDefaultMemPool(&other, 0));
    CHECK(pool == other);
    OK(cuMemGetDefaultMemPool(&other, &device, MANAGED));
    CHECK(pool != other);
    EXPECT(INVALID_VALUE, cuMemSetMemPool(&device, PINNED, other));
    EXPECT(INVALID_VALUE, cuMemSetMemPool(&host, PINNED, pool));
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, &none, PINNED));
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, &nowhere, MANAGED));
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, &device, 0));
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, 0, PINNED));
    EXPECT(INVALID_DEVICE, cuMemGetMemPool(&pool, &no_device, PINNED));
    CUmemLocation no_node = {HOST_NUMA, 1}, this_node = {HOST_NUMA_CURRENT, 0};
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, &no_node, PINNED));
    EXPECT(INVALID_VALUE, cuMemGetMemPool(&pool, &this_node, PINNED));
    /* Only pools of pinned memory of devices and of the host's NUMA nodes can be shared with other processes. */
    CUmemPoolProps shared = {.allocType = PINNED, .handleTypes = 1, .location = host};
    EXPECT(INVALID_VALUE, cuMemPoolCreate(&pool, &shared));
    shared.location = this_node;
    EXPECT(INVALID_VALUE, cuMemPoolCreate(&pool, &shared));
    shared.location = node;
    shared.allocType = MANAGED;
    EXPECT(INVALID_VALUE, cuMemPoolCreate(&pool, &shared));

    /* XGBoost requests memory for hardware decompression on every device. */
    CUmemPoolProps decompressed = {.allocType = PINNED, .location = node, .usage = 2};
    OK(cuMemPoolCreate(&pool, &decompressed));
    CHECK(attribute(pool, DECOMPRESS) == 1 && attribute(other, DECOMPRESS) == 0);
    use(pool, 0, HOST_NUMA, stream);
    OK(cuMemPoolDestroy(pool));
    decompressed.usage = 3;
    EXPECT(NOT_SUPPORTED, cuMemPoolCreate(&pool, &decompressed));

    OK(cuStreamDestroy_v2(stream));
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
