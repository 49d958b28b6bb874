// Tests three devices (`MARGAY_DEVICES=3`): their properties, memory and contexts, and access and copies between them.
#include "abi.h"

#include <pthread.h>
#include <unistd.h>

CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned *, const int *, unsigned, CUdevice, CUdevice);
CUresult cuDeviceGetHostAtomicCapabilities(unsigned *, const int *, unsigned, CUdevice);
CUresult cuDeviceGetLuid(char *, unsigned *, CUdevice);
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *, int, unsigned, CUdevice);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuCtxDisablePeerAccess(CUcontext);
CUresult cuCtxGetExecAffinity(void *, int);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
typedef struct {
    size_t x, y, z, lod;
    int type;
    const void *host;
    CUdeviceptr device;
    void *array;
    CUcontext context;
    size_t pitch, height;
} Side;
typedef struct {
    Side src, dst;
    size_t width, height, depth;
} PeerCopy;
CUresult cuMemcpy3DPeer(const PeerCopy *);
CUresult cuMemcpy3DPeerAsync(const PeerCopy *, CUstream);

enum { DEVICES = 3, PEER_UNSUPPORTED = 217, PEER_ENABLED = 704, PEER_NOT_ENABLED = 705, UNSUPPORTED_AFFINITY = 224 };

static void properties(void) {
    int count = 0, value;
    char names[DEVICES][200], places[DEVICES][32];
    CUuuid ids[DEVICES];
    EXPECT(cuDeviceGetCount(&count), SUCCESS);
    CHECK(count == DEVICES);
    for (int i = 0; i < DEVICES; ++i) {
        CUdevice device = -1;
        size_t bytes = 0;
        EXPECT(cuDeviceGet(&device, i), SUCCESS);
        CHECK(device == i);
        EXPECT(cuDeviceGetName(names[i], sizeof names[i], i), SUCCESS);
        EXPECT(cuDeviceGetUuid_v2(&ids[i], i), SUCCESS);
        EXPECT(cuDeviceGetPCIBusId(places[i], sizeof places[i], i), SUCCESS);
        EXPECT(cuDeviceGetByPCIBusId(&device, places[i]), SUCCESS);
        CHECK(device == i);
        EXPECT(cuDeviceTotalMem_v2(&bytes, i), SUCCESS);
        CHECK(bytes == 64 << 20);
        unsigned bus;
        CHECK(sscanf(places[i], "0000:%x:00.0", &bus) == 1);
        EXPECT(cuDeviceGetAttribute(&value, 33, i), SUCCESS);
        CHECK(value == (int)bus);
        char luid[8] = "unknown";
        unsigned mask = 5;
        EXPECT(cuDeviceGetLuid(luid, &mask, i), SUCCESS);
        size_t width = 0;
        EXPECT(cuDeviceGetTexture1DLinearMaxWidth(&width, 0x20, 4, i), SUCCESS);
        EXPECT(cuDeviceGetAttribute(&value, 69, i), SUCCESS);
        CHECK(width == (size_t)value);
        EXPECT(cuDeviceGetTexture1DLinearMaxWidth(&width, 0x20, 3, i), INVALID_VALUE);
        for (int j = 0; j < i; ++j) {
            CHECK(strcmp(names[i], names[j]) == 0);
            CHECK(strcmp(places[i], places[j]) != 0);
            CHECK(memcmp(&ids[i], &ids[j], sizeof ids[i]) != 0);
        }
    }
    EXPECT(cuDeviceGet(&value, DEVICES), INVALID_DEVICE);
    EXPECT(cuDeviceTotalMem_v2(&(size_t){0}, -1), INVALID_DEVICE);
}

static void peers(CUcontext *contexts) {
    int value = -1;
    EXPECT(cuDeviceCanAccessPeer(&value, 0, 1), SUCCESS);
    CHECK(value == 1);
    EXPECT(cuDeviceCanAccessPeer(&value, 2, 2), SUCCESS);
    CHECK(value == 0);
    static const int want[] = {0, 0, 1, 1, 1, 0};
    for (int attribute = 1; attribute <= 5; ++attribute) {
        EXPECT(cuDeviceGetP2PAttribute(&value, attribute, 1, 2), SUCCESS);
        CHECK(value == want[attribute]);
    }
    EXPECT(cuDeviceGetP2PAttribute(&value, 2, 1, 1), INVALID_DEVICE);
    EXPECT(cuDeviceGetP2PAttribute(&value, 9, 1, 0), INVALID_VALUE);
    unsigned capabilities[2];
    int operations[2] = {0, 9};
    EXPECT(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 1), SUCCESS);
    CHECK(capabilities[0] == (1 | 2 | 4 | 8 | 0x10) && capabilities[1] == (2 | 8 | 0x10 | 0x20));
    EXPECT(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 0, 0, 1), INVALID_VALUE);
    EXPECT(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 1), SUCCESS);
    CHECK(capabilities[0] == 0 && capabilities[1] == 0);
    operations[1] = 13;
    EXPECT(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 1), INVALID_VALUE);
    REQUIRE(cuCtxSetCurrent(contexts[0]));
    EXPECT(cuCtxEnablePeerAccess(contexts[1], 0), SUCCESS);
    EXPECT(cuCtxEnablePeerAccess(contexts[1], 0), PEER_ENABLED);
    EXPECT(cuCtxEnablePeerAccess(contexts[0], 0), INVALID_CONTEXT);
    EXPECT(cuCtxDisablePeerAccess(contexts[2]), PEER_NOT_ENABLED);
    EXPECT(cuCtxDisablePeerAccess(contexts[1]), SUCCESS);
    EXPECT(cuCtxDisablePeerAccess(contexts[1]), PEER_NOT_ENABLED);
    CUcontext same;
    REQUIRE(cuCtxCreate_v2(&same, 0, 0));
    EXPECT(cuCtxEnablePeerAccess(contexts[0], 0), PEER_UNSUPPORTED);
    char affinity[16];
    EXPECT(cuCtxGetExecAffinity(affinity, 0), UNSUPPORTED_AFFINITY);
    EXPECT(cuCtxGetExecAffinity(affinity, 7), INVALID_VALUE);
    REQUIRE(cuCtxDestroy_v2(same));
}

// Checks that an allocation belongs to the device of the current context and uses memory of this device only.
static void memory(CUcontext *contexts) {
    CUdeviceptr at[DEVICES];
    size_t free[DEVICES], now, total;
    for (int i = 0; i < DEVICES; ++i) {
        int ordinal = -1;
        CUcontext owner = NULL;
        REQUIRE(cuCtxSetCurrent(contexts[i]));
        EXPECT(cuCtxGetDevice(&ordinal), SUCCESS);
        CHECK(ordinal == i);
        REQUIRE(cuMemGetInfo_v2(&free[i], &total));
        REQUIRE(cuMemAlloc_v2(&at[i], 40 << 20));
        EXPECT(cuMemAlloc_v2(&(CUdeviceptr){0}, 40 << 20), OUT_OF_MEMORY);
        EXPECT(cuPointerGetAttribute(&ordinal, 9, at[i]), SUCCESS);
        CHECK(ordinal == i);
        EXPECT(cuPointerGetAttribute(&owner, 1, at[i]), SUCCESS);
        CHECK(owner == contexts[i]);
        REQUIRE(cuMemGetInfo_v2(&now, &total));
        CHECK(free[i] - now == 40 << 20 && total == 64 << 20);
        REQUIRE(cuMemsetD8_v2(at[i], (unsigned char)(i + 1), 4096));
        REQUIRE(cuCtxSynchronize());
    }
    unsigned char seen[4096];
    REQUIRE(cuMemcpyPeer(at[0], contexts[0], at[1], contexts[1], 100));
    REQUIRE(cuMemcpyPeerAsync(at[0] + 100, contexts[0], at[2], contexts[2], 100, NULL));
    EXPECT(cuMemcpyPeer(at[0], NULL, at[1], contexts[1], 100), INVALID_CONTEXT);
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemcpyDtoH_v2(seen, at[0], 4096));
    CHECK(seen[0] == 2 && seen[99] == 2 && seen[100] == 3 && seen[199] == 3 && seen[200] == 1);
    // Copies a box of 4 x 2 x 2 bytes from layers of 4 rows of 8 bytes.
    PeerCopy copy = {
        .src = {.x = 1, .y = 1, .type = 2, .device = at[1], .context = contexts[1], .pitch = 8, .height = 4},
        .dst = {.type = 2, .device = at[2], .context = contexts[2], .pitch = 16, .height = 2},
        .width = 4,
        .height = 2,
        .depth = 2,
    };
    EXPECT(cuMemcpy3DPeer(&copy), SUCCESS);
    EXPECT(cuMemcpy3DPeerAsync(&copy, NULL), SUCCESS);
    REQUIRE(cuCtxSynchronize());
    REQUIRE(cuMemcpyDtoH_v2(seen, at[2], 64));
    for (int i = 0; i < 64; ++i)
        CHECK(seen[i] == (i % 16 < 4 ? 2 : 3));
    copy.dst.context = NULL;
    EXPECT(cuMemcpy3DPeer(&copy), INVALID_CONTEXT);
    EXPECT(cuMemcpy3DPeer(NULL), INVALID_VALUE);
    for (int i = 0; i < DEVICES; ++i)
        REQUIRE(cuMemFree_v2(at[i]));
    // The arrays were freed while the context of device 2 was current; this also freed the memory of the other devices.
    REQUIRE(cuCtxSetCurrent(contexts[1]));
    REQUIRE(cuMemGetInfo_v2(&now, &total));
    CHECK(now == free[1]);
}

// Contexts of the threads below. Each thread runs kernels on its own device at the same time. A fault on device 1 does
// not affect the other devices.
static CUcontext threads_contexts[DEVICES];

static void *work(void *argument) {
    intptr_t device = (intptr_t)argument;
    CUmodule module;
    CUfunction scale, poke;
    CUdeviceptr values;
    REQUIRE(cuCtxSetCurrent(threads_contexts[device]));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&scale, module, "scale"));
    REQUIRE(cuModuleGetFunction(&poke, module, "poke"));
    REQUIRE(cuMemAlloc_v2(&values, 4096));
    REQUIRE(cuMemsetD32_v2(values, 0x3f800000, 1024));
    float factor = 2, seen[1024];
    unsigned count = 1024;
    void *arguments[] = {&values, &factor, &count};
    for (int turn = 0; turn < 20; ++turn)
        REQUIRE(cuLaunchKernel(scale, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuMemcpyDtoH_v2(seen, values, 4096));
    CHECK(seen[0] == 1 << 20 && seen[1023] == 1 << 20);
    if (device == 1) {
        CUdeviceptr wild = 8;
        void *wrong[] = {&wild};
        REQUIRE(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, NULL, wrong, NULL));
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    }
    return NULL;
}

static void *let_go(void *flag) {
    usleep(50000);
    __atomic_store_n((unsigned *)flag, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

// Checks a copy between two contexts while a third context is current: the copy waits for earlier work of all streams
// of these contexts, also of non-blocking streams, and later work waits for the copy.
static void copies_in_order(CUcontext *contexts, int in_three_dimensions) {
    CUmodule module;
    CUfunction spin;
    CUdeviceptr from, to, at;
    CUstream reading, writing, late;
    unsigned *flag, got = 0, late_got = 0;
    REQUIRE(cuCtxSetCurrent(contexts[2]));
    REQUIRE(cuMemAlloc_v2(&to, 4));
    REQUIRE(cuStreamCreate(&reading, 1));
    REQUIRE(cuMemsetD32Async(to, 1, 1, reading));
    REQUIRE(cuStreamSynchronize(reading));
    REQUIRE(cuCtxSetCurrent(contexts[1]));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&flag, 4, 3));
    *flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&at, flag, 0));
    REQUIRE(cuMemAlloc_v2(&from, 4));
    REQUIRE(cuStreamCreate(&writing, 1));
    void *arguments[] = {&at};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, writing, arguments, NULL));
    REQUIRE(cuMemsetD32Async(from, 7, 1, writing));

    pthread_t thread;
    pthread_create(&thread, NULL, let_go, flag);
    REQUIRE(cuCtxSetCurrent(contexts[0]));
    if (in_three_dimensions) {
        PeerCopy copy = {.src = {.type = 2, .device = from, .context = contexts[1]},
                         .dst = {.type = 2, .device = to, .context = contexts[2]},
                         .width = 4, .height = 1, .depth = 1};
        EXPECT(cuMemcpy3DPeer(&copy), SUCCESS);
    } else {
        EXPECT(cuMemcpyPeer(to, contexts[2], from, contexts[1], 4), SUCCESS);
    }
    REQUIRE(cuCtxSetCurrent(contexts[1]));
    REQUIRE(cuMemsetD32Async(from, 9, 1, writing));
    REQUIRE(cuCtxSetCurrent(contexts[2]));
    REQUIRE(cuStreamCreate(&late, 1));
    REQUIRE(cuMemcpyDtoHAsync_v2(&got, to, 4, reading));
    REQUIRE(cuMemcpyDtoHAsync_v2(&late_got, to, 4, late));
    EXPECT(cuStreamSynchronize(reading), SUCCESS);
    EXPECT(cuStreamSynchronize(late), SUCCESS);
    CHECK(got == 7 && late_got == 7);
    pthread_join(thread, NULL);
    REQUIRE(cuStreamDestroy_v2(late));
    REQUIRE(cuStreamDestroy_v2(reading));
    REQUIRE(cuMemFree_v2(to));
    REQUIRE(cuCtxSetCurrent(contexts[1]));
    EXPECT(cuStreamSynchronize(writing), SUCCESS);
    REQUIRE(cuStreamDestroy_v2(writing));
    REQUIRE(cuMemFree_v2(from));
    REQUIRE(cuMemFreeHost(flag));
    REQUIRE(cuModuleUnload(module));
}

int main(void) {
    CUcontext contexts[DEVICES];
    REQUIRE(cuInit(0));
    properties();
    for (int i = 0; i < DEVICES; ++i) {
        REQUIRE(cuDevicePrimaryCtxRetain(&contexts[i], i));
        threads_contexts[i] = contexts[i];
    }
    peers(contexts);
    memory(contexts);
    copies_in_order(contexts, 0);
    copies_in_order(contexts, 1);
    pthread_t threads[DEVICES];
    for (intptr_t i = 0; i < DEVICES; ++i)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < DEVICES; ++i)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < DEVICES; ++i) {
        REQUIRE(cuCtxSetCurrent(contexts[i]));
        EXPECT(cuCtxSynchronize(), i == 1 ? ILLEGAL_ADDRESS : SUCCESS);
    }
    EXPECT(cuDevicePrimaryCtxReset_v2(1), SUCCESS);
    REQUIRE(cuCtxSetCurrent(contexts[1]));
    EXPECT(cuCtxSynchronize(), SUCCESS);
    return finish();
}
