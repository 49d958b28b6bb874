// The state of the model (contexts, memory with its bytes, modules, arrays, streams and pools) and the rules by which
// results are judged. The model uses only what the documentation states.
//
// A *problem* is a reason why a call must fail, with the error code that the documentation states. Each operation lists
// the problems of its call. A call without problems must succeed. A call with problems must return the code of one of
// them; each of these codes is accepted.
#pragma once

#include "../abi.h"

#include <stdarg.h>

enum { CONTEXT_IS_DESTROYED = 709, MOST_STACK = 6, IDLE = -1, NULL_STREAM = 100 };
enum { CONTEXTS = 5, PRIMARIES = 2, BLOCKS = 20, STALE = 8, MODULES = 3, ARRAYS = 4, STREAMS = 4, POOLS = 2 };

typedef enum { UNMADE, LIVE, GONE } State;
typedef enum { DEVICE_MEMORY, MANAGED, HOST, POOLED } Kind;

typedef struct {
    CUcontext handle;
    int device;
    State state;
} Context;

// An allocation that the program may free.
typedef struct {
    int live;
    Kind kind;
    int context; // The owner; -1 for memory of a pool.
    int device, pool;
    CUdeviceptr at;
    size_t bytes;
    unsigned char *mirror;
    int busy; // The stream that still uses the block, or `NULL_STREAM` plus a context, or `IDLE`.
} Block;

typedef struct {
    CUmodule handle;
    CUfunction fill;
    CUdeviceptr tag;
    unsigned tag_value;
    int context;
    State state;
} Module;

typedef struct {
    void *handle;
    int context;
    State state;
    size_t width, height; // In texels of four bytes; height 0 means one dimension.
    unsigned char *mirror;
} Array;

typedef struct {
    CUstream handle;
    int context;
    State state;
    int blocking; // Whether it is ordered with the context's null stream.
} Stream;

typedef struct {
    void *handle;
    int device;
    State state;
    int own; // Whether it is the device's default pool, which cannot be destroyed.
} Pool;

typedef struct {
    Context contexts[CONTEXTS];
    int stack[MOST_STACK], depth;
    Block blocks[BLOCKS];
    CUdeviceptr stale[STALE]; // Freed addresses at which no unknown allocation can be.
    int stales;
    Module modules[MODULES];
    Array arrays[ARRAYS];
    Stream streams[STREAMS];
    Pool pools[PRIMARIES + POOLS];
} World;

static World w;
static uint64_t seed_state;
static unsigned long long program_number, step_number, calls_made;
static int told; // Whether every call is printed.

static uint64_t draw(void) {
    uint64_t z = seed_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned below(unsigned bound) {
    return (unsigned)(draw() % bound);
}

static int one_in(unsigned bound) {
    return below(bound) == 0;
}

// Ends the process, because a wrong result can affect later results.
static void __attribute__((format(printf, 1, 2), noreturn)) wrong(const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("program %llu, step %llu: ", program_number, step_number);
    vprintf(format, list);
    printf("\n");
    va_end(list);
    fflush(stdout);
    exit(1);
}

#define DEMAND(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            wrong("%s:%d: %s does not hold", __FILE__, __LINE__, #condition);                                \
    } while (0)

// The problems of a call.
typedef struct {
    int codes[12], count;
} Problems;

static void problem(Problems *problems, int holds, int code) {
    if (holds)
        problems->codes[problems->count++] = code;
}

// Checks the result of a call. Returns whether the call had to succeed.
static int judge(const char *call, CUresult got, const Problems *problems) {
    int expected = problems->count == 0 ? got == SUCCESS : 0;
    ++calls_made;
    for (int i = 0; i < problems->count; ++i)
        expected |= got == problems->codes[i];
    if (told)
        printf("%llu.%llu %s = %d\n", program_number, step_number, call, got);
    if (!expected) {
        printf("expected:");
        for (int i = 0; i < problems->count; ++i)
            printf(" %s", result_name(problems->codes[i]));
        printf("%s\n", problems->count ? "" : " success");
        wrong("%s: %s", call, result_name(got));
    }
    return problems->count == 0;
}

#define JUDGE(call, problems) judge(#call, (call), (problems))

static int current(void) {
    return w.depth ? w.stack[w.depth - 1] : -1;
}

// Returns whether a live context is current.
static int has_context(void) {
    return current() >= 0 && w.contexts[current()].state == LIVE;
}

static Problems needs_context(void) {
    Problems none = {.count = 0};
    problem(&none, current() < 0, INVALID_CONTEXT);
    problem(&none, current() >= 0 && !has_context(), CONTEXT_IS_DESTROYED);
    problem(&none, current() >= 0 && !has_context(), INVALID_CONTEXT);
    return none;
}

// The index of a random element that satisfies the condition (which uses the index `at`), or -1.
#define PICK(table, size, condition)                                                                         \
    ({                                                                                                       \
        int found_ = -1, start_ = (int)below(size);                                                          \
        for (int i_ = 0; i_ < (int)(size) && found_ < 0; ++i_) {                                             \
            int at = (start_ + i_) % (int)(size);                                                            \
            if (condition)                                                                                   \
                found_ = at;                                                                                 \
        }                                                                                                    \
        found_;                                                                                              \
    })

static void finished(int worker) {
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].busy == worker)
            w.blocks[i].busy = IDLE;
}

// The null stream of the current context as a value of `Block.busy`, or `IDLE` if no live context is current.
static int here(void) {
    return has_context() ? NULL_STREAM + current() : IDLE;
}

static int is_ordered(int earlier, int later) {
    int null = earlier >= NULL_STREAM ? earlier : later, other = earlier >= NULL_STREAM ? later : earlier;
    return earlier == later || (null >= NULL_STREAM && other >= 0 && other < NULL_STREAM && w.streams[other].blocking &&
                                w.streams[other].context == null - NULL_STREAM);
}

// Waits for the work that still uses a block, unless `next` (a value of `Block.busy`) is ordered after this work.
static void settle(Block *block, int next) {
    int busy = block->busy;
    if (busy == IDLE || is_ordered(busy, next))
        return;
    CUresult got = SUCCESS;
    if (busy < NULL_STREAM) {
        got = cuStreamSynchronize(w.streams[busy].handle);
    } else {
        CUcontext popped;
        REQUIRE(cuCtxPushCurrent_v2(w.contexts[busy - NULL_STREAM].handle));
        got = cuCtxSynchronize();
        REQUIRE(cuCtxPopCurrent_v2(&popped));
    }
    if (got != SUCCESS)
        wrong("waiting for earlier work: %s", result_name(got));
    finished(busy);
}

static int live_block(CUdeviceptr at) {
    for (int i = 0; i < BLOCKS; ++i)
        if (w.blocks[i].live && at >= w.blocks[i].at && at < w.blocks[i].at + w.blocks[i].bytes)
            return i;
    return -1;
}

static void forget_block(Block *block) {
    block->live = 0;
    free(block->mirror);
    block->mirror = NULL;
    w.stale[w.stales++ % STALE] = block->at;
}

// Returns an address that is in no allocation: null, freed, or never allocated.
static CUdeviceptr nowhere(void) {
    int known = w.stales < STALE ? w.stales : STALE;
    if (known > 0 && !one_in(3)) {
        CUdeviceptr old = w.stale[below((unsigned)known)];
        if (old != 0 && live_block(old) < 0)
            return old;
    }
    return one_in(2) ? 0 : 0x5a5a5a58;
}

// Forgets the freed addresses, because an allocation that the model does not know may be there now.
static void hidden_memory(void) {
    w.stales = 0;
}
