// Operations on allocations: device memory, pitched, managed and pinned memory.
#pragma once

#include "world.h"

CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);

enum { MOST_BYTES = 3000, PITCH_ALIGNMENT = 256 };

static const size_t TOO_MUCH = (size_t)1 << 52;

// Adds a new allocation to the model and fills it with a known byte.
static void enter(int at, Kind kind, int context, int pool, int device, CUdeviceptr address, size_t bytes) {
    Block *block = &w.blocks[at];
    DEMAND(address != 0);
    // The new allocation overlaps no live block.
    for (int i = 0; i < BLOCKS; ++i)
        DEMAND(!w.blocks[i].live || address >= w.blocks[i].at + w.blocks[i].bytes ||
               w.blocks[i].at >= address + bytes);
    *block = (Block){1, kind, context, device, pool, address, bytes, malloc(bytes), IDLE};
    unsigned char value = (unsigned char)draw();
    memset(block->mirror, value, bytes);
    if (kind == HOST) {
        memset((void *)(uintptr_t)address, value, bytes);
        return;
    }
    CUresult got = cuMemsetD8_v2(address, value, bytes);
    if (got != SUCCESS)
        wrong("a first fill: %s", result_name(got));
    block->busy = here();
}

static void allocate(void) {
    int at = PICK(w.blocks, BLOCKS, !w.blocks[at].live);
    if (at < 0)
        return;
    Kind kind = below(4) == 0 ? MANAGED : below(3) == 0 ? HOST : DEVICE_MEMORY;
    size_t bytes = one_in(10) ? 0 : one_in(12) ? TOO_MUCH : 1 + below(MOST_BYTES);
    unsigned flags = kind == MANAGED ? (one_in(8) ? below(4) == 0 ? 0 : 4 : 1 + below(2))
                                     : (one_in(8) ? 8 : below(8));
    CUdeviceptr address = 0;
    void *host = NULL;
    int no_place = one_in(12);
    Problems problems = needs_context();
    problem(&problems, no_place || bytes == 0, INVALID_VALUE);
    problem(&problems, kind == MANAGED && flags != 1 && flags != 2, INVALID_VALUE);
    problem(&problems, kind == HOST && flags > 7, INVALID_VALUE);
    problem(&problems, bytes == TOO_MUCH, OUT_OF_MEMORY);
    int good = 0;
    if (kind == DEVICE_MEMORY)
        good = JUDGE(cuMemAlloc_v2(no_place ? NULL : &address, bytes), &problems);
    else if (kind == MANAGED)
        good = JUDGE(cuMemAllocManaged(no_place ? NULL : &address, bytes, flags), &problems);
    else
        good = JUDGE(cuMemHostAlloc(no_place ? NULL : &host, bytes, flags), &problems);
    if (kind == HOST)
        address = (CUdeviceptr)(uintptr_t)host;
    if (good)
        enter(at, kind, current(), -1, w.contexts[current()].device, address, bytes);
    else
        DEMAND(address == 0);
}

static void allocate_pitched(void) {
    int at = PICK(w.blocks, BLOCKS, !w.blocks[at].live);
    if (at < 0)
        return;
    size_t width = one_in(10) ? 0 : 1 + below(900), height = one_in(10) ? 0 : 1 + below(4), pitch = 0;
    unsigned element = one_in(8) ? below(2) * 5 : 4u << below(3);
    CUdeviceptr address = 0;
    Problems problems = needs_context();
    problem(&problems, width == 0 || height == 0 || (element != 4 && element != 8 && element != 16), INVALID_VALUE);
    if (!JUDGE(cuMemAllocPitch_v2(&address, &pitch, width, height, element), &problems))
        return;
    DEMAND(pitch >= width && pitch % PITCH_ALIGNMENT == 0 && pitch < width + 4096);
    enter(at, DEVICE_MEMORY, current(), -1, w.contexts[current()].device, address, pitch * height);
}

// Returns an address to free: mostly that of a block, otherwise inside a block, null, freed, or never allocated. Sets
// `at` to the block's index, or to -1 for a wrong address.
static CUdeviceptr to_free(int *at, Kind wanted) {
    *at = PICK(w.blocks, BLOCKS, w.blocks[at].live && w.blocks[at].kind == wanted);
    if (*at < 0 || one_in(5)) {
        *at = -1;
        return nowhere();
    }
    if (w.blocks[*at].bytes > 1 && one_in(8)) {
        CUdeviceptr inside = w.blocks[*at].at + 1 + below((unsigned)w.blocks[*at].bytes - 1);
        *at = -1;
        return inside;
    }
    return w.blocks[*at].at;
}

static void free_memory(void) {
    int at;
    Kind kind = (Kind[]){DEVICE_MEMORY, DEVICE_MEMORY, MANAGED, POOLED, HOST}[below(5)];
    CUdeviceptr address = to_free(&at, kind);
    Problems problems = needs_context();
    problem(&problems, (at < 0 && address != 0) || kind == HOST, INVALID_VALUE);
    if (address == 0 || (kind == HOST && at < 0))
        problems = needs_context(), problem(&problems, address != 0, INVALID_VALUE);
    if (at >= 0 && problems.count == 0)
        settle(&w.blocks[at], IDLE);
    if (JUDGE(cuMemFree_v2(address), &problems) && at >= 0)
        forget_block(&w.blocks[at]);
}

static void free_pinned(void) {
    int at;
    Kind kind = one_in(6) ? DEVICE_MEMORY : HOST;
    CUdeviceptr address = to_free(&at, kind);
    Problems problems = needs_context();
    problem(&problems, at < 0 || kind != HOST, INVALID_VALUE);
    if (problems.count == 0)
        settle(&w.blocks[at], IDLE);
    if (JUDGE(cuMemFreeHost((void *)(uintptr_t)address), &problems))
        forget_block(&w.blocks[at]);
}

static void ask_range(void) {
    int at = PICK(w.blocks, BLOCKS, w.blocks[at].live);
    CUdeviceptr base = 7, address;
    size_t bytes = 7;
    if (at < 0 || one_in(4)) {
        at = -1;
        address = nowhere();
    } else {
        address = w.blocks[at].at + below((unsigned)w.blocks[at].bytes);
    }
    Problems problems = needs_context();
    problem(&problems, at < 0, NOT_FOUND);
    problem(&problems, at < 0, INVALID_VALUE);
    if (JUDGE(cuMemGetAddressRange_v2(one_in(6) ? NULL : &base, one_in(6) ? NULL : &bytes, address), &problems))
        DEMAND((base == 7 || base == w.blocks[at].at) && (bytes == 7 || bytes == w.blocks[at].bytes));
    else
        DEMAND(base == 7 && bytes == 7);
}

enum { TYPE_HOST = 1, TYPE_DEVICE = 2 };

static void ask_pointer(void) {
    int at = PICK(w.blocks, BLOCKS, w.blocks[at].live), type = -1, ordinal = -9, managed = 0;
    CUcontext owner = (CUcontext)8;
    CUdeviceptr address = at < 0 || one_in(4) ? (at = -1, nowhere())
                                              : w.blocks[at].at + below((unsigned)w.blocks[at].bytes);
    Problems problems = {.count = 0};
    problem(&problems, at < 0, INVALID_VALUE);
    if (!JUDGE(cuPointerGetAttribute(&type, 2, address), &problems))
        return;
    Block *block = &w.blocks[at];
    DEMAND(type == (block->kind == HOST ? TYPE_HOST : TYPE_DEVICE));
    Problems none = {.count = 0};
    JUDGE(cuPointerGetAttribute(&ordinal, 9, address), &none);
    DEMAND(ordinal == block->device);
    JUDGE(cuPointerGetAttribute(&managed, 8, address), &none);
    DEMAND((managed & 0xff) == (block->kind == MANAGED));
    if (block->context >= 0) {
        JUDGE(cuPointerGetAttribute(&owner, 1, address), &none);
        DEMAND(owner == w.contexts[block->context].handle);
    }
}

static void ask_info(void) {
    size_t free = 0, total = 0;
    Problems problems = needs_context();
    if (JUDGE(cuMemGetInfo_v2(&free, &total), &problems))
        DEMAND(free <= total && total > 0);
}
