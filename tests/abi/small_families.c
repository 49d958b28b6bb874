// Tests small groups of functions: advice for managed memory, batches of copies, functions from before CUDA 3.2, green
// contexts, events of whole contexts, the driver's log, and settings of core dumps.
#include "abi.h"

#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    int type, id;
} Location;
enum { NODE_NONE = 0, ON_DEVICE = 1, ON_HOST = 2, UNSUPPORTED = 801, NOT_PERMITTED = 800 };

CUresult cuMemAdvise_v2(CUdeviceptr, size_t, int, Location);
CUresult cuMemAdvise(CUdeviceptr, size_t, int, int);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, Location, unsigned, CUstream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, Location *, size_t *, size_t, unsigned long long,
                                 CUstream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
CUresult cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
CUresult cuMemGetLocationInfo(CUdeviceptr, size_t, size_t, size_t, Location *);

static int ranged(int attribute, CUdeviceptr at, size_t bytes) {
    int value = -99;
    EXPECT(cuMemRangeGetAttribute(&value, 4, attribute, at, bytes), SUCCESS);
    return value;
}

static void managed(void) {
    CUdeviceptr at, plain;
    const size_t bytes = 64 << 10;
    Location device = {ON_DEVICE, 0}, host = {ON_HOST, 0};
    REQUIRE(cuMemAllocManaged(&at, bytes, 1));
    REQUIRE(cuMemAlloc_v2(&plain, bytes));
    for (int attribute = 1; attribute <= 8; ++attribute)
        if (attribute != 3)
            CHECK(ranged(attribute, at, bytes) == (attribute == 1 || attribute == 5 || attribute == 7 ? 0 : -2));
    // The advice "read mostly" covers half of the memory, so a query for all of the memory returns 0.
    EXPECT(cuMemAdvise_v2(at, bytes / 2, 1, device), SUCCESS);
    CHECK(ranged(1, at, bytes / 2) == 1 && ranged(1, at, bytes) == 0 && ranged(1, at + bytes / 2, 8) == 0);
    EXPECT(cuMemAdvise(at, bytes / 4, 2, 0), SUCCESS);
    CHECK(ranged(1, at, 1) == 0 && ranged(1, at + bytes / 4, bytes / 4) == 1);
    EXPECT(cuMemAdvise_v2(at, bytes, 3, device), SUCCESS);
    CHECK(ranged(2, at, bytes) == 0 && ranged(5, at, bytes) == ON_DEVICE && ranged(6, at, bytes) == 0);
    EXPECT(cuMemAdvise_v2(at, 4096, 3, host), SUCCESS);
    CHECK(ranged(2, at, 4096) == -1 && ranged(5, at, 100) == ON_HOST && ranged(2, at, bytes) == -2);
    EXPECT(cuMemAdvise(at, bytes, 4, 0), SUCCESS);
    CHECK(ranged(2, at, bytes) == -2 && ranged(5, at, bytes) == 0);
    int users[3];
    EXPECT(cuMemAdvise(at, bytes, 5, -1), SUCCESS);
    EXPECT(cuMemAdvise_v2(at, bytes, 5, device), SUCCESS);
    EXPECT(cuMemRangeGetAttribute(users, sizeof users, 3, at, bytes), SUCCESS);
    CHECK(users[0] == 0 && users[1] == -1 && users[2] == -2);
    EXPECT(cuMemAdvise(at, bytes, 6, -1), SUCCESS);
    EXPECT(cuMemRangeGetAttribute(users, sizeof users, 3, at, bytes), SUCCESS);
    CHECK(users[0] == 0 && users[1] == -2);
    EXPECT(cuMemPrefetchAsync_v2(at, bytes, device, 0, NULL), SUCCESS);
    CHECK(ranged(4, at, bytes) == 0 && ranged(7, at, bytes) == ON_DEVICE);
    CUdeviceptr parts[3] = {at, at + 8192, at + 16384};
    size_t sizes[3] = {4096, 4096, 4096}, firsts[2] = {0, 1};
    Location places[2] = {host, device};
    EXPECT(cuMemPrefetchBatchAsync(parts, sizes, 3, places, firsts, 2, 0, NULL), SUCCESS);
    CHECK(ranged(4, at, 4096) == -1 && ranged(4, at + 8192, 4096) == 0 && ranged(4, at, bytes) == -2);
    firsts[0] = 1;
    EXPECT(cuMemPrefetchBatchAsync(parts, sizes, 3, places, firsts, 2, 0, NULL), INVALID_VALUE);
    EXPECT(cuMemPrefetchBatchAsync(parts, sizes, 3, places, firsts, 2, 1, NULL), INVALID_VALUE);
    EXPECT(cuMemDiscardBatchAsync(parts, sizes, 3, 0, NULL), SUCCESS);
    parts[2] = plain;
    EXPECT(cuMemDiscardBatchAsync(parts, sizes, 3, 0, NULL), INVALID_VALUE);
    Location where[3];
    EXPECT(cuMemGetLocationInfo(at, 8192, 4096, 0, where), SUCCESS);
    CHECK(where[0].type == ON_HOST && where[1].type == ON_DEVICE && where[1].id == 0);
    EXPECT(cuMemGetLocationInfo(at, 8192, 0, 0, where), INVALID_VALUE);
    EXPECT(cuMemGetLocationInfo(plain, 8192, 4096, 0, where), INVALID_VALUE);
    int mostly = 9, last = 9;
    void *data[2] = {&mostly, &last};
    int which[2] = {1, 4};
    size_t rooms[2] = {4, 4};
    EXPECT(cuMemRangeGetAttributes(data, rooms, which, 2, at, 4096), SUCCESS);
    CHECK(mostly == 0 && last == -1);
    which[1] = 77;
    EXPECT(cuMemRangeGetAttributes(data, rooms, which, 2, at, 4096), INVALID_VALUE);
    EXPECT(cuMemAdvise(at, bytes, 9, 0), INVALID_VALUE);
    EXPECT(cuMemAdvise(at, bytes + 1, 1, 0), INVALID_VALUE);
    EXPECT(cuMemAdvise(at, bytes, 3, 7), INVALID_DEVICE);
    EXPECT(cuMemAdvise(plain, bytes, 1, 0), INVALID_VALUE);
    EXPECT(cuMemRangeGetAttribute(users, 3, 3, at, bytes), INVALID_VALUE);
    // Advice ends when the memory is freed.
    REQUIRE(cuMemFree_v2(at));
    EXPECT(cuMemRangeGetAttribute(users, 4, 1, at, bytes), INVALID_VALUE);
    REQUIRE(cuMemAllocManaged(&at, bytes, 1));
    CHECK(ranged(4, at, bytes) == -2);
    REQUIRE(cuMemFree_v2(at));
    REQUIRE(cuMemFree_v2(plain));
}

typedef struct {
    int order;
    Location src, dst;
    unsigned flags;
} CopyAttributes;
typedef struct {
    int type;
    CUdeviceptr at;
    size_t row, layer;
    Location hint;
} Operand;
typedef struct {
    Operand src, dst;
    size_t extent[3];
    int order;
    unsigned flags;
} Box;
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CopyAttributes *, size_t *, size_t,
                               CUstream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CopyAttributes *, size_t *, size_t,
                            size_t *, CUstream);
CUresult cuMemcpy3DBatchAsync_v2(size_t, Box *, unsigned long long, CUstream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CopyAttributes *, CUstream);

static void batches(void) {
    enum { COUNT = 3, BYTES = 1000 };
    CUstream stream;
    CUdeviceptr device;
    unsigned char host[COUNT][BYTES], seen[COUNT][BYTES];
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuMemAlloc_v2(&device, COUNT * 4096));
    for (int i = 0; i < COUNT; ++i)
        for (int j = 0; j < BYTES; ++j)
            host[i][j] = (unsigned char)(i * 31 + j * 7);
    CUdeviceptr dsts[COUNT], srcs[COUNT];
    size_t sizes[COUNT], firsts[2] = {0, 2}, failed = 77;
    CopyAttributes attributes[2] = {{.order = 1}, {.order = 2}};
    for (int i = 0; i < COUNT; ++i) {
        dsts[i] = device + 4096 * i;
        srcs[i] = (CUdeviceptr)host[i];
        sizes[i] = BYTES - i;
    }
    EXPECT(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, COUNT, attributes, firsts, 2, stream), SUCCESS);
    memset(host[2], 0, BYTES);
    REQUIRE(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; ++i) {
        srcs[i] = dsts[i];
        dsts[i] = (CUdeviceptr)seen[i];
    }
    attributes[0].order = 3;
    EXPECT(cuMemcpyBatchAsync(dsts, srcs, sizes, COUNT, attributes, firsts, 2, &failed, stream), SUCCESS);
    REQUIRE(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; ++i)
        for (int j = 0; j < BYTES - i; ++j)
            CHECK(seen[i][j] == (unsigned char)(i * 31 + j * 7));
    srcs[1] = 0;
    EXPECT(cuMemcpyBatchAsync(dsts, srcs, sizes, COUNT, attributes, firsts, 2, &failed, stream), INVALID_VALUE);
    CHECK(failed == 1);
    EXPECT(cuMemcpyBatchAsync(dsts, srcs, sizes, COUNT, attributes, firsts, 2, &failed, NULL), INVALID_VALUE);
    CHECK(failed == SIZE_MAX);
    firsts[1] = 3;
    EXPECT(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, COUNT, attributes, firsts, 2, stream), INVALID_VALUE);
    attributes[0].order = 0;
    EXPECT(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, attributes, firsts, 1, stream), INVALID_VALUE);
    EXPECT(cuMemcpyWithAttributesAsync(device, device + 4096, 16, attributes, stream), INVALID_VALUE);
    // The copy reads its source during the call, although the stream is busy, so a later write to the source has no
    // effect.
    CopyAttributes during = {.order = 2};
    unsigned *pinned;
    REQUIRE(cuMemHostAlloc((void **)&pinned, 4096, 0));
    pinned[0] = 1;
    CUmodule module;
    CUfunction spin;
    CUdeviceptr flag;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostGetDevicePointer_v2(&flag, pinned + 100, 0));
    pinned[100] = 0;
    void *arguments[] = {&flag};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    EXPECT(cuMemcpyWithAttributesAsync(device, (CUdeviceptr)pinned, 4, &during, stream), SUCCESS);
    pinned[0] = 2;
    __atomic_store_n(&pinned[100], 1, __ATOMIC_SEQ_CST);
    REQUIRE(cuStreamSynchronize(stream));
    unsigned word = 0;
    REQUIRE(cuMemcpyDtoH_v2(&word, device, 4));
    CHECK(word == 1);
    // Copies a box of 3 x 2 x 2 bytes from rows of 10 bytes and layers of 5 rows.
    unsigned char cube[2 * 5 * 10];
    for (size_t i = 0; i < sizeof cube; ++i)
        cube[i] = (unsigned char)i;
    Box box = {
        .src = {.type = 1, .at = (CUdeviceptr)cube, .row = 10, .layer = 5},
        .dst = {.type = 1, .at = device},
        .extent = {3, 2, 2},
        .order = 1,
    };
    EXPECT(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream), SUCCESS);
    REQUIRE(cuStreamSynchronize(stream));
    static const unsigned char want[12] = {0, 1, 2, 10, 11, 12, 50, 51, 52, 60, 61, 62};
    unsigned char packed[12];
    REQUIRE(cuMemcpyDtoH_v2(packed, device, 12));
    CHECK(memcmp(packed, want, 12) == 0);
    box.src.row = 2;
    EXPECT(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream), INVALID_VALUE);
    EXPECT(cuMemcpy3DBatchAsync_v2(1, &box, 5, stream), INVALID_VALUE);
    EXPECT(cuMemcpy3DBatchAsync_v2(0, &box, 0, stream), INVALID_VALUE);
    REQUIRE(cuMemFreeHost(pinned));
    REQUIRE(cuMemFree_v2(device));
    REQUIRE(cuStreamDestroy_v2(stream));
}

#undef cuMemGetInfo
CUresult cuMemGetInfo(unsigned *, unsigned *);
CUresult cuMemAlloc(unsigned *, unsigned);
CUresult cuMemFree(unsigned);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer(unsigned *, void *, unsigned);
CUresult cuMemcpyHtoD(unsigned, const void *, unsigned);
CUresult cuMemcpyDtoH(void *, unsigned, unsigned);
CUresult cuMemsetD16(unsigned, unsigned short, unsigned);
CUresult cuMemsetD2D8(unsigned, unsigned, unsigned char, unsigned, unsigned);

// Tests functions with sizes and addresses of 32 bits. They can access only registered memory below 4 GiB.
static void old(void) {
    unsigned free = 0, total = 0, at = 0;
    EXPECT(cuMemGetInfo(&free, &total), SUCCESS);
    CHECK(total != 0 && free <= total);
    EXPECT(cuMemAlloc(&at, 4096), OUT_OF_MEMORY);
    EXPECT(cuMemAlloc(&at, 0), INVALID_VALUE);
    EXPECT(cuMemFree(0), SUCCESS);
    EXPECT(cuMemFree(4096), INVALID_VALUE);
    EXPECT(cuMemcpyHtoD(4096, &at, 4), INVALID_VALUE);
    unsigned short *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED)
        return;
    REQUIRE(cuMemHostRegister_v2(low, 4096, 2));
    EXPECT(cuMemHostGetDevicePointer(&at, low, 0), SUCCESS);
    CHECK((void *)(uintptr_t)at == low);
    EXPECT(cuMemsetD16(at, 0x1234, 8), SUCCESS);
    EXPECT(cuMemsetD2D8(at + 100, 10, 7, 2, 3), SUCCESS);
    REQUIRE(cuCtxSynchronize());
    CHECK(low[0] == 0x1234 && low[7] == 0x1234 && low[8] == 0);
    CHECK(low[50] == 0x0707 && low[55] == 0x0707 && low[60] == 0x0707 && low[51] == 0);
    unsigned word = 0;
    EXPECT(cuMemcpyDtoH(&word, at, 4), SUCCESS);
    CHECK(word == 0x12341234);
    EXPECT(cuMemcpyDtoH(&word, at + 4096, 4), INVALID_VALUE);
    EXPECT(cuMemHostUnregister((char *)low + 64), INVALID_VALUE);
    REQUIRE(cuMemHostUnregister(low));
}

typedef struct {
    int type;
    unsigned filler[23];
    unsigned words[10];
    void *next;
} Resource;
typedef struct {
    unsigned sms, together, preferred, flags, domain, reserved[11];
} Group;
typedef struct Green *Green;
typedef struct Description *Description;
CUresult cuDeviceGetDevResource(CUdevice, Resource *, int);
CUresult cuCtxGetDevResource(CUcontext, Resource *, int);
CUresult cuGreenCtxGetDevResource(Green, Resource *, int);
CUresult cuStreamGetDevResource(CUstream, Resource *, int);
CUresult cuDevSmResourceSplitByCount(Resource *, unsigned *, const Resource *, Resource *, unsigned, unsigned);
CUresult cuDevSmResourceSplit(Resource *, unsigned, const Resource *, Resource *, unsigned, Group *);
CUresult cuDevResourceGenerateDesc(Description *, Resource *, unsigned);
CUresult cuGreenCtxCreate(Green *, Description, CUdevice, unsigned);
CUresult cuGreenCtxDestroy(Green);
CUresult cuCtxFromGreenCtx(CUcontext *, Green);
CUresult cuGreenCtxStreamCreate(CUstream *, Green, unsigned, int);
CUresult cuStreamGetGreenCtx(CUstream, Green *);
CUresult cuGreenCtxRecordEvent(Green, CUevent);
CUresult cuGreenCtxWaitEvent(Green, CUevent);
CUresult cuGreenCtxGetId(Green, unsigned long long *);
CUresult cuCtxRecordEvent(CUcontext, CUevent);
CUresult cuCtxWaitEvent(CUcontext, CUevent);

static void green(CUcontext primary) {
    enum { SM = 1, BAD_TYPE = 914, BAD_CONFIGURATION = 915 };
    Resource all, parts[8], rest, seen;
    int sms;
    REQUIRE(cuDeviceGetAttribute(&sms, 16, 0));
    REQUIRE(cuDeviceGetDevResource(0, &all, SM));
    CHECK(all.type == SM && all.words[0] == (unsigned)sms);
    EXPECT(cuDeviceGetDevResource(0, &all, 3), BAD_TYPE);
    unsigned count = 0;
    EXPECT(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 5), SUCCESS);
    // A part has an even number of multiprocessors, at least 4. A request for 5 therefore gives parts of 6.
    CHECK(count == (unsigned)sms / 6);
    count = 2;
    EXPECT(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 0, 5), SUCCESS);
    CHECK(count == 2 && parts[0].words[0] == 6 && parts[1].words[0] == 6);
    CHECK(rest.words[0] == (unsigned)sms - 12);
    EXPECT(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 0, sms + 1), BAD_CONFIGURATION);
    Resource made_up = {.type = SM, .words = {8, 2, 2}};
    EXPECT(cuDevSmResourceSplitByCount(parts, &count, &made_up, &rest, 0, 4), BAD_TYPE);
    Group groups[2] = {{.sms = 8, .together = 4}, {.sms = 0, .together = 2, .flags = 1}};
    EXPECT(cuDevSmResourceSplit(parts, 2, &all, &rest, 0, groups), SUCCESS);
    CHECK(parts[0].words[0] == 8 && groups[1].sms == (unsigned)(sms - 8) / 2 * 2);
    Description description;
    Green green;
    CUcontext context, current;
    CUstream stream, other;
    EXPECT(cuDevResourceGenerateDesc(&description, &made_up, 1), BAD_TYPE);
    EXPECT(cuDevResourceGenerateDesc(&description, parts, 0), INVALID_VALUE);
    // The resources of one description do not overlap.
    Resource twice[2] = {parts[0], parts[0]}, whole[2] = {parts[1], all};
    EXPECT(cuDevResourceGenerateDesc(&description, twice, 2), BAD_CONFIGURATION);
    EXPECT(cuDevResourceGenerateDesc(&description, whole, 2), BAD_CONFIGURATION);
    EXPECT(cuDevResourceGenerateDesc(&description, parts, 2), SUCCESS);
    REQUIRE(cuDevResourceGenerateDesc(&description, parts, 1));
    EXPECT(cuGreenCtxCreate(&green, description, 0, 8), INVALID_VALUE);
    REQUIRE(cuGreenCtxCreate(&green, description, 0, 1));
    REQUIRE(cuCtxFromGreenCtx(&context, green));
    CHECK(context != primary);
    EXPECT(cuGreenCtxGetDevResource(green, &seen, SM), SUCCESS);
    CHECK(seen.words[0] == 8);
    EXPECT(cuCtxGetDevResource(context, &seen, SM), SUCCESS);
    CHECK(seen.words[0] == 8);
    EXPECT(cuCtxGetDevResource(primary, &seen, SM), SUCCESS);
    CHECK(seen.words[0] == (unsigned)sms);
    REQUIRE(cuCtxPushCurrent_v2(context));
    EXPECT(cuCtxGetCurrent(&current), SUCCESS);
    CHECK(current == context);
    // A green context uses the modules and memory of the primary context.
    CUmodule module;
    CUfunction scale;
    CUdeviceptr values;
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    REQUIRE(cuMemAlloc_v2(&values, 4096));
    REQUIRE(cuMemsetD32_v2(values, 0x40000000, 1024));
    REQUIRE(cuCtxSynchronize());
    EXPECT(cuGreenCtxStreamCreate(&stream, green, 0, 0), INVALID_VALUE);
    REQUIRE(cuGreenCtxStreamCreate(&stream, green, 1, 0));
    REQUIRE(cuStreamCreate(&other, 1));
    Green owner = NULL;
    EXPECT(cuStreamGetGreenCtx(stream, &owner), SUCCESS);
    CHECK(owner == green);
    EXPECT(cuStreamGetGreenCtx(other, &owner), SUCCESS);
    CHECK(owner == green);
    EXPECT(cuStreamGetDevResource(stream, &seen, SM), SUCCESS);
    CHECK(seen.words[0] == 8);
    float factor = 3, value = 0;
    unsigned elements = 1024;
    void *arguments[] = {&values, &factor, &elements};
    REQUIRE(cuLaunchKernel(scale, 4, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
    CUevent event;
    REQUIRE(cuEventCreate(&event, 2));
    EXPECT(cuGreenCtxRecordEvent(green, event), SUCCESS);
    REQUIRE(cuEventSynchronize(event));
    REQUIRE(cuMemcpyDtoH_v2(&value, values + 4092, 4));
    CHECK(value == 6);
    EXPECT(cuGreenCtxWaitEvent(green, event), SUCCESS);
    unsigned long long id = 0, again = 0;
    EXPECT(cuGreenCtxGetId(green, &id), SUCCESS);
    EXPECT(cuGreenCtxGetId(NULL, &again), SUCCESS);
    CHECK(id != 0 && id == again);
    REQUIRE(cuCtxPopCurrent_v2(&current));
    CHECK(current == context);
    EXPECT(cuGreenCtxGetId(NULL, &again), INVALID_CONTEXT);
    REQUIRE(cuStreamCreate(&other, 1));
    EXPECT(cuStreamGetGreenCtx(other, &owner), SUCCESS);
    CHECK(owner == NULL);
    // Records an event of the whole context while a kernel waits for the host.
    unsigned *flag;
    CUdeviceptr place;
    CUfunction spin;
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&flag, 64, 0));
    *flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&place, flag, 0));
    void *waiting[] = {&place};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, other, waiting, NULL));
    EXPECT(cuCtxRecordEvent(primary, event), SUCCESS);
    EXPECT(cuEventQuery(event), NOT_READY);
    EXPECT(cuCtxWaitEvent(primary, event), SUCCESS);
    // After `cuCtxWaitEvent`, both an existing stream and a new stream wait for the event.
    CUevent behind;
    CUstream late;
    REQUIRE(cuEventCreate(&behind, 2));
    REQUIRE(cuEventRecord(behind, stream));
    EXPECT(cuEventQuery(behind), NOT_READY);
    REQUIRE(cuStreamCreate(&late, 1));
    REQUIRE(cuEventRecord(behind, late));
    EXPECT(cuEventQuery(behind), NOT_READY);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    REQUIRE(cuEventSynchronize(behind));
    EXPECT(cuEventQuery(event), SUCCESS);
    EXPECT(cuCtxRecordEvent(primary, NULL), INVALID_HANDLE);
    EXPECT(cuCtxDestroy_v2(context), INVALID_CONTEXT);
    EXPECT(cuGreenCtxDestroy(green), SUCCESS);
    EXPECT(cuGreenCtxDestroy(green), INVALID_CONTEXT);
    EXPECT(cuCtxPushCurrent_v2(context), INVALID_CONTEXT);
    REQUIRE(cuMemFreeHost(flag));
    REQUIRE(cuMemFree_v2(values));
}

typedef struct Listener *Listener;
CUresult cuLogsRegisterCallback(void (*)(void *, int, char *, size_t), void *, Listener *);
CUresult cuLogsUnregisterCallback(Listener);
CUresult cuLogsCurrent(unsigned *, unsigned);
CUresult cuLogsDumpToMemory(unsigned *, char *, size_t *, unsigned);
CUresult cuLogsDumpToFile(unsigned *, const char *, unsigned);

static int heard;

static void listen(void *data, int level, char *message, size_t length) {
    heard += data == &heard && level == 0 && strlen(message) == length && strstr(message, "cuMemAlloc_v2") != NULL;
    // The library does not report errors of the callback's own calls to the callback.
    cuMemAlloc_v2(NULL, 1);
}

static void logs(void) {
    Listener listener;
    unsigned begin, at;
    char text[30000];
    size_t size = sizeof text;
    REQUIRE(cuLogsRegisterCallback(listen, &heard, &listener));
    EXPECT(cuLogsRegisterCallback(NULL, NULL, NULL), INVALID_VALUE);
    REQUIRE(cuLogsCurrent(&begin, 0));
    EXPECT(cuLogsCurrent(&begin, 1), INVALID_VALUE);
    REQUIRE(cuLogsCurrent(&begin, 0));
    at = begin;
    EXPECT(cuLogsDumpToMemory(&at, text, &size, 0), SUCCESS);
    CHECK(size == 0 && text[0] == 0);
    heard = 0;
    EXPECT(cuMemAlloc_v2(NULL, 16), INVALID_VALUE);
    CHECK(heard == 1);
    size = sizeof text;
    EXPECT(cuLogsDumpToMemory(&at, text, &size, 0), SUCCESS);
    CHECK(strlen(text) == size && text[size - 1] == '\n');
    CHECK(strstr(text, "cuMemAlloc_v2: CUDA_ERROR_INVALID_VALUE") != NULL);
    size = sizeof text;
    EXPECT(cuLogsDumpToMemory(&at, text, &size, 0), SUCCESS);
    CHECK(size == 0);
    size = 8;
    at = begin;
    EXPECT(cuLogsDumpToMemory(&at, text, &size, 0), INVALID_VALUE);
    CHECK(size == 0);
    for (int i = 0; i < 2000; ++i)
        EXPECT(cuMemFree_v2(12345), INVALID_VALUE);
    size = sizeof text;
    at = begin;
    EXPECT(cuLogsDumpToMemory(&at, text, &size, 0), SUCCESS);
    CHECK(size > 20000 && size <= 26000 && strstr(text, "lost") != NULL);
    size = 1000;
    EXPECT(cuLogsDumpToMemory(NULL, text, &size, 0), SUCCESS);
    CHECK(size > 500 && size < 1000);
    char path[] = "/tmp/margay-log-XXXXXX";
    close(mkstemp(path));
    at = begin;
    EXPECT(cuLogsDumpToFile(&at, path, 0), SUCCESS);
    EXPECT(cuLogsDumpToFile(&at, NULL, 0), INVALID_VALUE);
    FILE *file = fopen(path, "r");
    CHECK(file && fread(text, 1, 25000, file) > 10000);
    if (file)
        fclose(file);
    unlink(path);
    EXPECT(cuLogsUnregisterCallback(listener), SUCCESS);
    EXPECT(cuLogsUnregisterCallback(listener), INVALID_VALUE);
    heard = 0;
    EXPECT(cuMemAlloc_v2(NULL, 16), INVALID_VALUE);
    CHECK(heard == 0);
}

CUresult cuCoredumpGetAttribute(int, void *, size_t *);
CUresult cuCoredumpSetAttribute(int, void *, size_t *);
CUresult cuCoredumpGetAttributeGlobal(int, void *, size_t *);
CUresult cuCoredumpSetAttributeGlobal(int, void *, size_t *);

static void dumps(void) {
    char text[1024];
    unsigned char on = 9, yes = 1, no = 0;
    size_t size = sizeof text, one = 1;
    EXPECT(cuCoredumpGetAttributeGlobal(5, text, &size), SUCCESS);
    CHECK(strncmp(text, "core.cuda.", 10) == 0 && size == strlen(text) + 1);
    EXPECT(cuCoredumpGetAttribute(1, &on, &one), SUCCESS);
    CHECK(on == 0);
    EXPECT(cuCoredumpSetAttribute(1, &yes, &one), NOT_PERMITTED);
    EXPECT(cuCoredumpSetAttribute(2, &no, &one), SUCCESS);
    EXPECT(cuCoredumpGetAttribute(2, &on, &one), SUCCESS);
    CHECK(on == 0);
    EXPECT(cuCoredumpGetAttributeGlobal(2, &on, &one), SUCCESS);
    CHECK(on == 1);
    size = 5;
    EXPECT(cuCoredumpSetAttributeGlobal(5, "name", &size), SUCCESS);
    size = sizeof text;
    EXPECT(cuCoredumpGetAttribute(5, text, &size), SUCCESS);
    CHECK(strcmp(text, "name") == 0 && size == 5);
    size = 2;
    EXPECT(cuCoredumpGetAttribute(5, text, &size), INVALID_VALUE);
    EXPECT(cuCoredumpGetAttribute(50, text, &size), INVALID_VALUE);
}

int main(void) {
    CUcontext primary = start();
    managed();
    batches();
    old();
    green(primary);
    logs();
    dumps();
    return finish();
}
