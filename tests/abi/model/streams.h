// Operations on streams and on stream-ordered allocations from pools.
#pragma once

#include "copies.h"

typedef struct {
    int type, handles;
    struct {
        int type, id;
    } location;
    void *windows;
    size_t most;
    unsigned short usage, rdma;
    unsigned char reserved[52];
} PoolProps;

CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);
CUresult cuMemPoolCreate(void **, const PoolProps *);
CUresult cuMemPoolDestroy(void *);
CUresult cuMemPoolGetAttribute(void *, int, void *);
CUresult cuMemPoolTrimTo(void *, size_t);
CUresult cuDeviceGetDefaultMemPool(void **, CUdevice);

enum { USED_NOW = 7, ROUNDING = 512 };

static void create_stream(void) {
    int at = PICK(w.streams, STREAMS, w.streams[at].state != LIVE);
    if (at < 0)
        return;
    // Does not reuse the index of a destroyed stream as long as a block still refers to it.
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].live && w.blocks[i].busy == at)
            return;
    CUstream handle = NULL;
    unsigned flags = one_in(8) ? 6 : below(2);
    Problems problems = needs_context();
    problem(&problems, flags > 1, INVALID_VALUE);
    if (JUDGE(cuStreamCreate(&handle, flags), &problems))
        w.streams[at] = (Stream){handle, current(), LIVE, flags == 0};
}

static void destroy_stream(void) {
    int at = PICK(w.streams, STREAMS, w.streams[at].state != UNMADE);
    if (at < 0 || (w.streams[at].state == LIVE && w.streams[at].context != current()))
        return;
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].live && w.blocks[i].busy == at)
            settle(&w.blocks[i], IDLE);
    int stale = w.streams[at].state == GONE;
    Problems problems = {.count = 0};
    problem(&problems, stale, INVALID_HANDLE);
    problem(&problems, stale, INVALID_CONTEXT);
    problem(&problems, stale, CONTEXT_IS_DESTROYED);
    if (JUDGE(cuStreamDestroy_v2(w.streams[at].handle), &problems))
        w.streams[at].state = GONE;
}

static void synchronize_stream(void) {
    int at = PICK(w.streams, STREAMS, w.streams[at].state != UNMADE);
    if (at < 0)
        return;
    int stale = w.streams[at].state == GONE;
    Problems problems = {.count = 0};
    problem(&problems, stale, INVALID_HANDLE);
    problem(&problems, stale, INVALID_CONTEXT);
    problem(&problems, stale, CONTEXT_IS_DESTROYED);
    if (JUDGE(cuStreamSynchronize(w.streams[at].handle), &problems))
        finished(at);
}

static void create_pool(void) {
    int at = PICK(w.pools, PRIMARIES + POOLS, w.pools[at].state != LIVE);
    int device = one_in(6) ? 9 : (int)below(PRIMARIES), type = one_in(6) ? 0 : 1;
    if (at < 0)
        return;
    PoolProps props = {.type = type, .location = {1, device}};
    void *handle = NULL;
    Problems problems = {.count = 0};
    problem(&problems, device == 9, INVALID_DEVICE);
    problem(&problems, device == 9 || type == 0, INVALID_VALUE);
    if (JUDGE(cuMemPoolCreate(&handle, &props), &problems))
        w.pools[at] = (Pool){handle, device, LIVE, 0};
}

// Destroys a pool. The pool's allocations stay valid.
static void destroy_pool(void) {
    int at = PICK(w.pools, PRIMARIES + POOLS, w.pools[at].state != UNMADE);
    if (at < 0)
        return;
    Problems problems = {.count = 0};
    problem(&problems, w.pools[at].state == GONE || w.pools[at].own, INVALID_VALUE);
    if (!JUDGE(cuMemPoolDestroy(w.pools[at].handle), &problems))
        return;
    w.pools[at].state = GONE;
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].live && w.blocks[i].kind == POOLED && w.blocks[i].pool == at)
            w.blocks[i].pool = -1;
}

static void allocate_in_order(void) {
    int at = PICK(w.blocks, BLOCKS, !w.blocks[at].live);
    int stream = PICK(w.streams, STREAMS, w.streams[at].state == LIVE && w.streams[at].context == current());
    int pool = PICK(w.pools, PRIMARIES + POOLS, w.pools[at].state != UNMADE);
    if (at < 0)
        return;
    CUstream handle = stream < 0 || one_in(3) ? NULL : w.streams[stream].handle;
    size_t bytes = one_in(10) ? TOO_MUCH : 1 + below(MOST_BYTES);
    int from_pool = one_in(2), no_place = one_in(12), device;
    CUdeviceptr address = 0, *out = no_place ? NULL : &address;
    Problems problems = needs_context();
    problem(&problems, no_place, INVALID_VALUE);
    problem(&problems, bytes == TOO_MUCH, OUT_OF_MEMORY);
    int good;
    if (from_pool) {
        problem(&problems, w.pools[pool].state == GONE, INVALID_VALUE);
        device = w.pools[pool].device;
        good = JUDGE(cuMemAllocFromPoolAsync(out, bytes, w.pools[pool].handle, handle), &problems);
    } else {
        pool = device = has_context() ? w.contexts[current()].device : -1;
        good = JUDGE(cuMemAllocAsync(out, bytes, handle), &problems);
    }
    if (!good)
        return;
    if (handle && cuStreamSynchronize(handle) != SUCCESS)
        wrong("waiting for an allocation");
    enter(at, POOLED, -1, pool, device, address, bytes);
}

// Frees memory in the order of a stream. A second free is an error at once.
static void free_in_order(void) {
    int at = PICK(w.blocks, BLOCKS, w.blocks[at].live && w.blocks[at].kind == POOLED);
    int stream = PICK(w.streams, STREAMS, w.streams[at].state == LIVE && w.streams[at].context == current());
    CUdeviceptr address = nowhere();
    if (at >= 0 && !one_in(6))
        address = w.blocks[at].at;
    else
        at = -1;
    if (at >= 0)
        settle(&w.blocks[at], stream < 0 ? here() : stream);
    CUstream handle = stream < 0 ? NULL : w.streams[stream].handle;
    Problems problems = needs_context();
    problem(&problems, at < 0 && address != 0, INVALID_VALUE);
    if (!JUDGE(cuMemFreeAsync(address, handle), &problems) || at < 0)
        return;
    forget_block(&w.blocks[at]);
    hidden_memory(); // The stream may not have freed the address yet.
    Problems twice = {.count = 0};
    problem(&twice, 1, INVALID_VALUE);
    if (one_in(2))
        JUDGE(cuMemFreeAsync(address, handle), &twice);
    if (one_in(4))
        JUDGE(cuMemFree_v2(address), &twice);
}

static void ask_pool(void) {
    int at = PICK(w.pools, PRIMARIES + POOLS, w.pools[at].state != UNMADE), count = 0;
    uint64_t used = 0, sum = 0;
    Problems problems = {.count = 0};
    problem(&problems, w.pools[at].state == GONE, INVALID_VALUE);
    if (one_in(3)) {
        JUDGE(cuMemPoolTrimTo(w.pools[at].handle, below(1000)), &problems);
        return;
    }
    for (int i = 0; i < CONTEXTS && w.pools[at].state == LIVE; ++i)
        if (w.contexts[i].state == LIVE) {
            // Waits until pending frees are complete.
            CUcontext popped;
            if (cuCtxPushCurrent_v2(w.contexts[i].handle) != SUCCESS || cuCtxSynchronize() != SUCCESS ||
                cuCtxPopCurrent_v2(&popped) != SUCCESS)
                wrong("waiting for a context");
        }
    if (!JUDGE(cuMemPoolGetAttribute(w.pools[at].handle, USED_NOW, &used), &problems))
        return;
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].live && w.blocks[i].kind == POOLED && w.blocks[i].pool == at) {
            sum += w.blocks[i].bytes;
            ++count;
        }
    DEMAND(used >= sum && used <= sum + (uint64_t)count * ROUNDING);
}
