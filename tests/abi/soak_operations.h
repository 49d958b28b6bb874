// The operations of a thread. Each operation changes the buffers, and in the same way the contents that the host
// expects.
#pragma once

#include "soak.h"

enum { BLOCK = 128 };

static void launch(Thread *t, CUfunction kernel, unsigned words, CUstream stream, void **arguments) {
    CALL(t, cuLaunchKernel(kernel, (words + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL));
}

static CUstream stream_of(Thread *t, const Buffer *buffer) {
    return t->streams[buffer->stream];
}

static Buffer *any(Thread *t) {
    return &t->buffers[below(t, BUFFERS)];
}

// Waits for the work on a buffer before a call that names no stream, unless such calls are ordered after the work. This
// is so for work of stream 0 on device memory.
static void settle(Thread *t, const Buffer *buffer) {
    if (buffer->stream != 0 || buffer->kind == MANAGED || buffer->kind == PINNED)
        CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
}

static void make(Thread *t, Buffer *buffer) {
    buffer->kind = below(t, 4);
    buffer->stream = (int)below(t, STREAMS);
    buffer->words = 1 + below(t, below(t, 4) ? 3000 : MOST_WORDS);
    size_t bytes = 4 * (size_t)buffer->words;
    CUstream stream = stream_of(t, buffer);
    switch (buffer->kind) {
    case PLAIN:
        CALL(t, cuMemAlloc_v2(&buffer->at, bytes));
        break;
    case MANAGED:
        CALL(t, cuMemAllocManaged(&buffer->at, bytes, 1));
        break;
    case PINNED:
        CALL(t, cuMemHostAlloc(&buffer->host, bytes, 2));
        CALL(t, cuMemHostGetDevicePointer_v2(&buffer->at, buffer->host, 0));
        break;
    case POOLED:
        CALL(t, cuMemAllocAsync(&buffer->at, bytes, stream));
    }
    buffer->mirror = malloc(bytes);
    unsigned value = (unsigned)next(t);
    for (unsigned i = 0; i < buffer->words; ++i)
        buffer->mirror[i] = value;
    CALL(t, cuMemsetD32Async(buffer->at, value, buffer->words, stream));
}

static void discard(Thread *t, Buffer *buffer) {
    if (buffer->kind == POOLED)
        CALL(t, cuMemFreeAsync(buffer->at, stream_of(t, buffer)));
    else
        CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
    if (buffer->kind == PINNED)
        CALL(t, cuMemFreeHost(buffer->host));
    else if (buffer->kind != POOLED)
        CALL(t, cuMemFree_v2(buffer->at));
    free(buffer->mirror);
}

static void check(Thread *t, const Buffer *buffer) {
    size_t bytes = 4 * (size_t)buffer->words;
    settle(t, buffer);
    if (below(t, 2) && (buffer->kind == PINNED || buffer->kind == MANAGED)) {
        const void *seen = buffer->kind == PINNED ? buffer->host : (void *)(uintptr_t)buffer->at;
        DEMAND(t, memcmp(seen, buffer->mirror, bytes) == 0);
        return;
    }
    unsigned *seen = malloc(bytes);
    if (below(t, 2)) {
        CALL(t, cuMemcpyDtoH_v2(seen, buffer->at, bytes));
    } else {
        CALL(t, cuMemcpyDtoHAsync_v2(seen, buffer->at, bytes, stream_of(t, buffer)));
        CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
    }
    DEMAND(t, memcmp(seen, buffer->mirror, bytes) == 0);
    free(seen);
}

// ---- Operations

static void look(Thread *t) {
    check(t, any(t));
}

static void fill(Thread *t) {
    Buffer *buffer = any(t);
    unsigned first = below(t, buffer->words), count = 1 + below(t, buffer->words - first);
    unsigned value = (unsigned)next(t) & 0xff;
    CUdeviceptr at = buffer->at + 4 * (CUdeviceptr)first;
    switch (below(t, 3)) {
    case 0:
        CALL(t, cuMemsetD8Async(at, (unsigned char)value, 4 * (size_t)count, stream_of(t, buffer)));
        break;
    case 1:
        settle(t, buffer);
        CALL(t, cuMemsetD16_v2(at, (unsigned short)(value * 0x101), 2 * (size_t)count));
        // The fill may still run. Only stream 0 is ordered after it, so the thread waits for it here.
        CALL(t, cuStreamSynchronize(NULL));
        break;
    default:
        CALL(t, cuMemsetD32Async(at, value * 0x1010101, count, stream_of(t, buffer)));
    }
    memset(buffer->mirror + first, (int)value, 4 * (size_t)count);
}

static void upload(Thread *t) {
    Buffer *buffer = any(t);
    unsigned first = below(t, buffer->words), count = 1 + below(t, buffer->words - first);
    for (unsigned i = 0; i < count; ++i)
        buffer->mirror[first + i] = (unsigned)next(t);
    CUdeviceptr at = buffer->at + 4 * (CUdeviceptr)first;
    if (below(t, 2)) {
        settle(t, buffer);
        CALL(t, cuMemcpyHtoD_v2(at, buffer->mirror + first, 4 * (size_t)count));
    } else {
        CALL(t, cuMemcpyHtoDAsync_v2(at, buffer->mirror + first, 4 * (size_t)count, stream_of(t, buffer)));
        CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
    }
}

static void affine(Thread *t) {
    Buffer *buffer = any(t);
    unsigned a = (unsigned)next(t) | 1, b = (unsigned)next(t), n = buffer->words;
    void *arguments[] = {&buffer->at, &n, &a, &b};
    launch(t, t->affine, n, stream_of(t, buffer), arguments);
    for (unsigned i = 0; i < n; ++i)
        buffer->mirror[i] = buffer->mirror[i] * a + b;
}

static void turn_round(Thread *t) {
    Buffer *buffer = any(t);
    unsigned n = buffer->words;
    void *arguments[] = {&buffer->at, &n};
    launch(t, t->turn_round, n, stream_of(t, buffer), arguments);
    for (unsigned start = 0; start < n; start += BLOCK) {
        unsigned last = (n - start < BLOCK ? n : start + BLOCK) - 1;
        for (unsigned i = start, j = last; i < j; ++i, --j) {
            unsigned kept = buffer->mirror[i];
            buffer->mirror[i] = buffer->mirror[j];
            buffer->mirror[j] = kept;
        }
    }
}

static void sum(Thread *t) {
    Buffer *buffer = any(t);
    CUstream stream = stream_of(t, buffer);
    CUdeviceptr out;
    unsigned n = buffer->words, got = 1, want = 0;
    CALL(t, cuMemAllocAsync(&out, sizeof got, stream));
    CALL(t, cuMemsetD32Async(out, 0, 1, stream));
    void *arguments[] = {&buffer->at, &n, &out};
    launch(t, t->sum, n, stream, arguments);
    CALL(t, cuMemcpyDtoHAsync_v2(&got, out, sizeof got, stream));
    CALL(t, cuMemFreeAsync(out, stream));
    CALL(t, cuStreamSynchronize(stream));
    for (unsigned i = 0; i < n; ++i)
        want += buffer->mirror[i];
    DEMAND(t, got == want);
}

static void count(Thread *t) {
    unsigned blocks = 1 + below(t, 4);
    void *arguments[] = {&t->place->counter};
    __atomic_add_fetch(&t->place->counted, (unsigned long long)blocks * BLOCK, __ATOMIC_RELAXED);
    launch(t, t->count, blocks * BLOCK, t->streams[below(t, STREAMS)], arguments);
}

// Copies between two buffers. Events order the copy with the work on both buffers.
static void copy(Thread *t) {
    Buffer *from = any(t), *to = any(t);
    if (from == to)
        return;
    unsigned most = from->words < to->words ? from->words : to->words, words = 1 + below(t, most);
    unsigned source = below(t, from->words - words + 1), target = below(t, to->words - words + 1);
    CUevent written, read;
    CALL(t, cuEventCreate(&written, below(t, 2) ? 2 : 0));
    CALL(t, cuEventCreate(&read, 2));
    CALL(t, cuEventRecord(written, stream_of(t, from)));
    CALL(t, cuStreamWaitEvent(stream_of(t, to), written, 0));
    CALL(t, cuMemcpyDtoDAsync_v2(to->at + 4 * (CUdeviceptr)target, from->at + 4 * (CUdeviceptr)source,
                                 4 * (size_t)words, stream_of(t, to)));
    CALL(t, cuEventRecord(read, stream_of(t, to)));
    CALL(t, cuStreamWaitEvent(stream_of(t, from), read, 0));
    memcpy(to->mirror + target, from->mirror + source, 4 * (size_t)words);
    if (below(t, 4) == 0) {
        CALL(t, cuEventSynchronize(read));
        DEMAND(t, cuEventQuery(written) == SUCCESS);
    }
    CALL(t, cuEventDestroy_v2(written));
    CALL(t, cuEventDestroy_v2(read));
}

static void called(void *data) {
    ++*(unsigned long long *)data;
}

static void host_function(Thread *t) {
    CUstream stream = t->streams[below(t, STREAMS)];
    unsigned long long calls = 0;
    for (int i = 0; i < 3; ++i)
        CALL(t, cuLaunchHostFunc(stream, called, &calls));
    CALL(t, cuStreamSynchronize(stream));
    DEMAND(t, calls == 3);
}

// Captures work of a stream in a graph and launches the graph up to three times.
static void graph(Thread *t) {
    Buffer *buffer = any(t);
    if (buffer->stream == 0)
        return; // Other threads use the null stream, with which stream 0 is ordered.
    CUstream stream = stream_of(t, buffer);
    unsigned a = (unsigned)next(t) | 1, b = (unsigned)next(t), n = buffer->words, value = (unsigned)next(t);
    unsigned filled = 1 + below(t, n), times = 1 + below(t, 3);
    CUgraph made;
    CUgraphExec exec;
    CALL(t, cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    CALL(t, cuMemsetD32Async(buffer->at, value, filled, stream));
    void *arguments[] = {&buffer->at, &n, &a, &b};
    launch(t, t->affine, n, stream, arguments);
    CALL(t, cuStreamEndCapture(stream, &made));
    CALL(t, cuGraphInstantiateWithFlags(&exec, made, 0));
    CALL(t, cuGraphDestroy(made));
    for (unsigned time = 0; time < times; ++time) {
        CALL(t, cuGraphLaunch(exec, stream));
        for (unsigned i = 0; i < n; ++i)
            buffer->mirror[i] = (i < filled ? value : buffer->mirror[i]) * a + b;
    }
    CALL(t, cuGraphExecDestroy(exec));
}

static void replace(Thread *t) {
    Buffer *buffer = any(t);
    if (below(t, 2))
        check(t, buffer);
    discard(t, buffer);
    make(t, buffer);
}

// Loads a separate module, sets its variable, and runs its kernel.
static void module(Thread *t) {
    Buffer *buffer = any(t);
    CUstream stream = stream_of(t, buffer);
    CUmodule fresh;
    CUfunction kernel;
    CUdeviceptr bias;
    size_t bytes;
    unsigned set = (unsigned)next(t), a = 3, b = 1, n = buffer->words;
    CALL(t, cuModuleLoadData(&fresh, SOAK_KERNELS));
    CALL(t, cuModuleGetFunction(&kernel, fresh, "affine"));
    CALL(t, cuModuleGetGlobal_v2(&bias, &bytes, fresh, "bias"));
    DEMAND(t, bytes == 4);
    CALL(t, cuMemcpyHtoD_v2(bias, &set, 4));
    void *arguments[] = {&buffer->at, &n, &a, &b};
    launch(t, kernel, n, stream, arguments);
    for (unsigned i = 0; i < n; ++i)
        buffer->mirror[i] = buffer->mirror[i] * a + b + set;
    CALL(t, cuStreamSynchronize(stream));
    CALL(t, cuModuleUnload(fresh));
}

// Copies a buffer to memory of another context, possibly of another device, and back.
static void peer(Thread *t) {
    Buffer *buffer = any(t);
    Place *other = &places[below(t, (unsigned)shared_places)];
    size_t bytes = 4 * (size_t)buffer->words;
    CUdeviceptr away;
    CUcontext popped;
    CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
    CALL(t, cuCtxPushCurrent_v2(other->context));
    CALL(t, cuMemAlloc_v2(&away, bytes));
    CALL(t, cuMemcpyPeer(away, other->context, buffer->at, t->place->context, bytes));
    CALL(t, cuCtxPopCurrent_v2(&popped));
    DEMAND(t, popped == other->context);
    CALL(t, cuMemsetD8Async(buffer->at, 0xa5, bytes, stream_of(t, buffer)));
    CALL(t, cuStreamSynchronize(stream_of(t, buffer)));
    CALL(t, cuMemcpyPeer(buffer->at, t->place->context, away, other->context, bytes));
    CALL(t, cuStreamSynchronize(NULL));
    CALL(t, cuCtxPushCurrent_v2(other->context));
    CALL(t, cuStreamSynchronize(NULL));
    CALL(t, cuMemFree_v2(away));
    CALL(t, cuCtxPopCurrent_v2(&popped));
}

static void ask(Thread *t) {
    Buffer *buffer = any(t);
    size_t bytes = 0, left = 0, total = 0;
    CUdeviceptr base = 0;
    CUcontext current = NULL;
    CUresult state = cuStreamQuery(t->streams[below(t, STREAMS)]);
    DEMAND(t, state == SUCCESS || state == NOT_READY);
    CALL(t, cuMemGetInfo_v2(&left, &total));
    DEMAND(t, left <= total);
    CALL(t, cuMemGetAddressRange_v2(&base, &bytes, buffer->at + 4 * (buffer->words - 1)));
    DEMAND(t, base == buffer->at && bytes == 4 * (size_t)buffer->words);
    CALL(t, cuCtxGetCurrent(&current));
    DEMAND(t, current == t->place->context);
}

// Makes wrong calls. Each call must return an error and change nothing.
static void wrong(Thread *t) {
    Buffer *buffer = any(t);
    CUevent event;
    CALL(t, cuEventCreate(&event, 0));
    CALL(t, cuEventDestroy_v2(event));
    DEMAND(t, cuEventRecord(event, t->streams[0]) != SUCCESS);
    DEMAND(t, cuMemFree_v2(0x1234567) == INVALID_VALUE);
    DEMAND(t, cuMemcpyDtoD_v2(buffer->at, 0x40, 4) == INVALID_VALUE);
    DEMAND(t, cuModuleGetFunction(&(CUfunction){0}, t->module, "none") == NOT_FOUND);
    DEMAND(t, cuLaunchKernel(t->affine, 1, 1, 1, 4096, 1, 1, 0, t->streams[0], NULL, NULL) == INVALID_VALUE);
}

// Waits for a stream or for the whole context. The wait for a context is an error while one of its streams captures, so
// the thread waits only for a context of its own.
static void wait(Thread *t) {
    int alone = t->place < places || t->place >= places + CONTEXTS;
    CALL(t, alone && below(t, 2) ? cuCtxSynchronize() : cuStreamSynchronize(t->streams[below(t, STREAMS)]));
}

static const struct {
    const char *name;
    void (*run)(Thread *);
    unsigned often;
} OPERATIONS[] = {
    {"look", look, 4},     {"fill", fill, 5},       {"upload", upload, 4},
    {"affine", affine, 8}, {"turn_round", turn_round, 6}, {"sum", sum, 4},
    {"count", count, 6},   {"copy", copy, 8},       {"host_function", host_function, 2},
    {"graph", graph, 2},   {"replace", replace, 3}, {"module", module, 1},
    {"peer", peer, 2},     {"ask", ask, 3},         {"wrong", wrong, 1},
    {"wait", wait, 2},
};
enum { KINDS = sizeof OPERATIONS / sizeof *OPERATIONS };

