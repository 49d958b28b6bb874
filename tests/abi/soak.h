// The data of an episode: a context with streams, buffers whose bytes the host also computes, and kernels.
// `soak_operations.h` contains the operations.
#pragma once

#include "graphs.h"

#include <pthread.h>
#include <unistd.h>

enum { STREAMS = 3, BUFFERS = 4, MOST_WORDS = 20000, CONTEXTS = 6 };

CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);

// A context that threads share, with its module and the counter to which all threads add.
typedef struct {
    CUcontext context;
    CUmodule module;
    CUdeviceptr counter;
    unsigned long long counted; // The expected value of the counter; accessed atomically.
} Place;

static Place places[CONTEXTS];
static int shared_places;

typedef enum { PLAIN, MANAGED, PINNED, POOLED } Kind;

typedef struct {
    CUdeviceptr at;
    Kind kind;
    void *host;       // The host's address of PINNED memory.
    unsigned *mirror; // The expected content.
    unsigned words;
    int stream; // The stream that executes the buffer's work in order.
} Buffer;

typedef struct {
    uint64_t seed;
    int number;
    unsigned long long operations, episodes;
    Place *place;
    CUmodule module;
    CUfunction affine, sum, turn_round, count;
    CUstream streams[STREAMS];
    Buffer buffers[BUFFERS];
    unsigned long long called; // Unused.
    const char *doing;
} Thread;

static inline uint64_t next(Thread *thread) {
    uint64_t z = thread->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline unsigned below(Thread *thread, unsigned bound) {
    return (unsigned)(next(thread) % bound);
}

// Ends the program at the first wrong value, because this value can affect later results.
#define DEMAND(thread, condition)                                                                            \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: thread %d, episode %llu, operation %llu (%s): %s does not hold\n", __FILE__,      \
                   __LINE__, (thread)->number, (thread)->episodes, (thread)->operations, (thread)->doing,    \
                   #condition);                                                                              \
            fflush(stdout);                                                                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

#define CALL(thread, call)                                                                                   \
    do {                                                                                                     \
        CUresult got_ = (call);                                                                              \
        if (got_ != SUCCESS) {                                                                               \
            printf("%s:%d: thread %d, episode %llu, operation %llu (%s): %s gives %s\n", __FILE__, __LINE__, \
                   (thread)->number, (thread)->episodes, (thread)->operations, (thread)->doing, #call,       \
                   result_name(got_));                                                                       \
            fflush(stdout);                                                                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

// affine: v[i] = v[i] * a + b + bias. sum: adds all values to a word, with a tree in shared memory. turn_round:
// reverses the words of each block in shared memory. count: each thread adds 1 to a 64-bit word.
static const char SOAK_KERNELS[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 bias = 0;\n"
    ".visible .entry affine(.param .u64 v, .param .u32 n, .param .u32 a, .param .u32 b)\n{\n"
    "    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p bra done;\n"
    "    ld.param.u64 %rd1, [v]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;\n"
    "    ld.param.u32 %r6, [a]; ld.param.u32 %r7, [b]; ld.global.u32 %r8, [bias]; add.u32 %r7, %r7, %r8;\n"
    "    ld.global.u32 %r8, [%rd3]; mad.lo.u32 %r8, %r8, %r6, %r7; st.global.u32 [%rd3], %r8;\n"
    "done:\n    ret;\n}\n"
    ".visible .entry sum(.param .u64 v, .param .u32 n, .param .u64 out)\n{\n"
    "    .shared .align 4 .b8 tile[512];\n"
    "    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>;\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    mov.u32 %r6, 0; ld.param.u32 %r5, [n]; setp.ge.u32 %p1, %r4, %r5; @%p1 bra put;\n"
    "    ld.param.u64 %rd1, [v]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3];\n"
    "put:\n"
    "    mov.u32 %r7, tile; mad.lo.u32 %r8, %r3, 4, %r7; st.shared.u32 [%r8], %r6;\n"
    "    mov.u32 %r9, 64;\n"
    "level:\n"
    "    bar.sync 0;\n"
    "    setp.ge.u32 %p2, %r3, %r9; @%p2 bra over;\n"
    "    mad.lo.u32 %r10, %r9, 4, %r8; ld.shared.u32 %r11, [%r10]; ld.shared.u32 %r6, [%r8];\n"
    "    add.u32 %r6, %r6, %r11; st.shared.u32 [%r8], %r6;\n"
    "over:\n"
    "    shr.u32 %r9, %r9, 1; setp.ne.u32 %p3, %r9, 0; @%p3 bra level;\n"
    "    setp.ne.u32 %p1, %r3, 0; @%p1 bra done;\n"
    "    ld.param.u64 %rd1, [out]; red.global.add.u32 [%rd1], %r6;\n"
    "done:\n    ret;\n}\n"
    ".visible .entry turn_round(.param .u64 v, .param .u32 n)\n{\n"
    "    .shared .align 4 .b8 tile[512];\n"
    "    .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %rd<4>;\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mul.lo.u32 %r4, %r1, %r2;\n"
    "    ld.param.u32 %r5, [n]; sub.u32 %r5, %r5, %r4; min.u32 %r5, %r5, %r2;\n"
    "    setp.ge.u32 %p, %r3, %r5; add.u32 %r6, %r4, %r3;\n"
    "    ld.param.u64 %rd1, [v]; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd3, %rd1, %rd2;\n"
    "    mov.u32 %r7, tile; mad.lo.u32 %r8, %r3, 4, %r7;\n"
    "    @!%p ld.global.u32 %r9, [%rd3]; @!%p st.shared.u32 [%r8], %r9;\n"
    "    bar.sync 0;\n"
    "    @%p bra done;\n"
    "    sub.u32 %r9, %r5, %r3; sub.u32 %r9, %r9, 1; mad.lo.u32 %r8, %r9, 4, %r7;\n"
    "    ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd3], %r9;\n"
    "done:\n    ret;\n}\n"
    ".visible .entry count(.param .u64 counter)\n{\n"
    "    .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd0, [counter]; mov.u64 %rd1, 1; red.global.add.u64 [%rd0], %rd1;\n    ret;\n}\n";
