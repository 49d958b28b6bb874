// Operations on contexts and on the thread's stack of current contexts.
#pragma once

#include "world.h"

static CUcontext some_context(int *at) {
    *at = PICK(w.contexts, CONTEXTS, w.contexts[at].state != UNMADE);
    if (one_in(8)) {
        *at = -1;
        return one_in(2) ? NULL : (CUcontext)0x5a5a5a58;
    }
    return w.contexts[*at].handle;
}

// Returns whether a context, which may be destroyed, is in the stack.
static int is_stacked(int context) {
    for (int i = 0; i < w.depth; ++i)
        if (w.stack[i] == context)
            return 1;
    return 0;
}

static void create_context(void) {
    int at = PICK(w.contexts, CONTEXTS, at >= PRIMARIES && w.contexts[at].state != LIVE && !is_stacked(at));
    if (at < 0 || w.depth == MOST_STACK)
        return;
    int device = one_in(6) ? 2 + (int)below(3) : (int)below(PRIMARIES);
    unsigned flags = one_in(8) ? 3 : 0; // Invalid: it selects two ways to wait.
    CUcontext handle = NULL, *out = one_in(10) ? NULL : &handle;
    Problems problems = {.count = 0};
    problem(&problems, device >= PRIMARIES, INVALID_DEVICE);
    problem(&problems, flags != 0 || !out, INVALID_VALUE);
    if (!JUDGE(cuCtxCreate_v2(out, flags, device), &problems))
        return;
    DEMAND(handle != NULL);
    for (int i = 0; i < CONTEXTS; ++i)
        DEMAND(w.contexts[i].state != LIVE || w.contexts[i].handle != handle);
    w.contexts[at] = (Context){handle, device, LIVE};
    w.stack[w.depth++] = at;
}

// Removes everything that a destroyed context owned from the model. Memory of pools stays.
static void end_context(int at) {
    for (int i = 0; i < BLOCKS; ++i) {
        Block *block = &w.blocks[i];
        int busy = block->busy;
        if (busy == NULL_STREAM + at || (busy >= 0 && busy < NULL_STREAM && w.streams[busy].context == at))
            block->busy = IDLE; // Destroying a context waits for its work.
        if (block->live && block->context == at)
            forget_block(block);
    }
    for (int i = 0; i < MODULES; ++i)
        if (w.modules[i].state == LIVE && w.modules[i].context == at)
            w.modules[i].state = GONE;
    for (int i = 0; i < ARRAYS; ++i)
        if (w.arrays[i].state == LIVE && w.arrays[i].context == at) {
            w.arrays[i].state = GONE;
            free(w.arrays[i].mirror);
            w.arrays[i].mirror = NULL;
        }
    for (int i = 0; i < STREAMS; ++i)
        if (w.streams[i].state == LIVE && w.streams[i].context == at)
            w.streams[i].state = GONE;
    w.contexts[at].state = GONE;
}

static void destroy_context(void) {
    int at;
    CUcontext handle = some_context(&at);
    int known = at >= PRIMARIES && w.contexts[at].state == LIVE;
    Problems problems = {.count = 0};
    problem(&problems, !known, INVALID_CONTEXT);
    problem(&problems, at < 0, INVALID_VALUE);
    problem(&problems, at >= 0 && w.contexts[at].state == GONE, CONTEXT_IS_DESTROYED);
    if (!JUDGE(cuCtxDestroy_v2(handle), &problems))
        return;
    if (current() == at) // The context leaves the top of the stack, but stays in deeper entries.
        --w.depth;
    end_context(at);
}

static void push_context(void) {
    int at;
    CUcontext handle = some_context(&at);
    if (w.depth == MOST_STACK)
        return;
    Problems problems = {.count = 0};
    problem(&problems, at < 0 || w.contexts[at].state == GONE, INVALID_CONTEXT);
    problem(&problems, at < 0, INVALID_VALUE);
    problem(&problems, at >= 0 && w.contexts[at].state == GONE, CONTEXT_IS_DESTROYED);
    if (JUDGE(cuCtxPushCurrent_v2(handle), &problems))
        w.stack[w.depth++] = at;
}

static void pop_context(void) {
    CUcontext handle = NULL, *out = one_in(3) ? NULL : &handle;
    Problems problems = {.count = 0};
    problem(&problems, w.depth == 0, INVALID_CONTEXT);
    if (!JUDGE(cuCtxPopCurrent_v2(out), &problems))
        return;
    int at = w.stack[--w.depth];
    DEMAND(!out || handle == w.contexts[at].handle || w.contexts[at].state == GONE);
}

static void set_context(void) {
    int at;
    CUcontext handle = some_context(&at);
    Problems problems = {.count = 0};
    int none = handle == NULL;
    problem(&problems, !none && (at < 0 || w.contexts[at].state == GONE), INVALID_CONTEXT);
    problem(&problems, at >= 0 && w.contexts[at].state == GONE, CONTEXT_IS_DESTROYED);
    if (!JUDGE(cuCtxSetCurrent(handle), &problems))
        return;
    if (w.depth > 0)
        --w.depth;
    if (!none)
        w.stack[w.depth++] = at;
}

static void ask_context(void) {
    CUcontext handle = (CUcontext)8;
    CUdevice device = -1;
    Problems none = {.count = 0}, problems = needs_context();
    JUDGE(cuCtxGetCurrent(&handle), &none);
    DEMAND(current() < 0 ? handle == NULL : !has_context() || handle == w.contexts[current()].handle);
    if (current() >= 0 && !has_context())
        return; // The device of a destroyed context is not specified.
    if (JUDGE(cuCtxGetDevice(&device), &problems))
        DEMAND(device == w.contexts[current()].device);
}

static void synchronize_context(void) {
    Problems problems = needs_context();
    if (!JUDGE(cuCtxSynchronize(), &problems))
        return;
    finished(NULL_STREAM + current());
    for (int i = 0; i < STREAMS; ++i)
        if (w.streams[i].state == LIVE && w.streams[i].context == current())
            finished(i);
}
