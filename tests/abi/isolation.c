// Checks that kernels access only the memory that CUDA gives them. docs/security.md states each rule that is checked.
//
// After a forbidden access, the host's variables have their old values, and the launch has ended with
// CUDA_ERROR_ILLEGAL_ADDRESS. The argument is the number of threads in a block: 1, or enough for vector code.
#include "abi.h"

#include <sys/mman.h>

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);

// Moves a pointer (%rd1), or a counter (%rd6) that is added to a pointer, towards %rd2 in steps of `step` * 4, as long
// as the distance is at least one step. Each iteration runs `access`. One unit of the counter stands for 1 << shift
// bytes.
#define MOVE(label, moved, at, shift, steps, access) \
    "  mul.wide.s32 %rd3, %r" steps ", 4; mul.lo.s64 %rd5, %rd3, %rd9; shl.b64 %rd5, %rd5, " shift ";\n" \
    "again" label ": " at " sub.s64 %rd4, %rd2, %rd10; mul.lo.s64 %rd4, %rd4, %rd9;\n" \
    "  setp.lt.s64 %q, %rd4, %rd5; @%q bra over" label ";\n" \
    "  " access " add.s64 " moved ", " moved ", %rd3; bra again" label ";\nover" label ":\n"
#define WALK(name, moved, at, shift, access) \
    ".visible .entry " name "(.param .u64 p, .param .u64 target, .param .s32 far, .param .s32 middle, .param .s32 near) {\n" \
    "  .reg .b64 %rd<12>; .reg .b32 %r<6>; .reg .pred %q;\n" \
    "  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [target]; mov.u64 %rd6, 0;\n" \
    "  ld.param.s32 %r1, [far]; ld.param.s32 %r2, [middle]; ld.param.s32 %r3, [near];\n" \
    "  setp.lt.s32 %q, %r1, 0; selp.s64 %rd9, -1, 1, %q;\n" \
    MOVE("1", moved, at, shift, "1", access) MOVE("2", moved, at, shift, "2", access) MOVE("3", moved, at, shift, "3", access) \
    "  " at " mov.u64 %rd7, 42; st.global.u64 [%rd10], %rd7; ret; }\n"

static const char PTX[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".global .align 4 .b8 format[4] = {37, 115, 10, 0};\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    // Each thread adds 1 to p[t]. p is a parameter, so the launch tests it once.
    ".visible .entry add(.param .u64 p, .param .u32 n) {\n"
    "  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %q;\n"
    "  ld.param.u64 %rd1, [p]; ld.param.u32 %r5, [n];\n"
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;\n"
    "  setp.ge.u32 %q, %r1, %r5; @%q bra done;\n"
    "  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;\n"
    "  ld.global.u32 %r4, [%rd3]; add.u32 %r4, %r4, 1; st.global.u32 [%rd3], %r4;\n"
    "done: ret; }\n"
    // The same through a pointer that is loaded from memory. Thread t uses element t ^ 5.
    ".visible .entry add_indirect(.param .u64 pp, .param .u32 n) {\n"
    "  .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .pred %q;\n"
    "  ld.param.u64 %rd1, [pp]; ld.global.u64 %rd4, [%rd1]; ld.param.u32 %r5, [n];\n"
    "  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;\n"
    "  setp.ge.u32 %q, %r1, %r5; @%q bra done;\n"
    "  xor.b32 %r1, %r1, 5;\n"
    "  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd4, %rd2;\n"
    "  ld.u32 %r4, [%rd3]; add.u32 %r4, %r4, 1; st.u32 [%rd3], %r4;\n"
    "done: ret; }\n"
    ".visible .entry load(.param .u64 p, .param .u64 o) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [o];\n"
    "  ld.global.u64 %rd3, [%rd1]; st.global.u64 [%rd2], %rd3; ret; }\n"
    ".visible .entry store(.param .u64 p) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u64 %rd2, 42; st.u64 [%rd1], %rd2; ret; }\n"
    ".visible .entry store_strong(.param .u64 p) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u64 %rd2, 42; st.release.sys.global.u64 [%rd1], %rd2; ret; }\n"
    ".visible .entry store_vector(.param .u64 p) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u64 %rd2, 42; st.global.v2.u64 [%rd1], {%rd2, %rd2}; ret; }\n"
    ".visible .entry exchange(.param .u64 p) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u64 %rd2, 42; atom.global.exch.b64 %rd3, [%rd1], %rd2; ret; }\n"
    ".visible .entry reduce(.param .u64 p) {\n"
    "  .reg .b64 %rd<4>; ld.param.u64 %rd1, [p]; mov.u64 %rd2, 42; red.global.add.u64 [%rd1], %rd2; ret; }\n"
    ".visible .entry copy_async(.param .u64 p) {\n"
    "  .shared .align 16 .b8 s[16]; .reg .b64 %rd<4>; .reg .b32 %r<3>; ld.param.u64 %rd1, [p]; mov.u32 %r1, s;\n"
    "  cp.async.ca.shared.global [%r1], [%rd1], 8; cp.async.wait_all; ret; }\n"
    ".visible .entry print(.param .u64 p) {\n"
    "  .local .align 8 .b8 a[8]; .reg .b64 %rd<6>; ld.param.u64 %rd1, [p];\n"
    "  mov.u64 %rd2, a; cvta.local.u64 %rd3, %rd2; st.u64 [%rd3], %rd1; mov.u64 %rd4, format; cvta.global.u64 %rd5, %rd4;\n"
    "  { .param .b64 f; .param .b64 b; .param .b32 r; st.param.b64 [f], %rd5; st.param.b64 [b], %rd3;\n"
    "    call.uni (r), vprintf, (f, b); } ret; }\n"
    // Thread t stores to byte t * step + first of dynamic shared memory.
    ".extern .shared .align 4 .b8 dynamic[];\n"
    ".visible .entry shared(.param .u32 first, .param .u32 step) {\n"
    "  .reg .b32 %r<6>; ld.param.u32 %r1, [first]; ld.param.u32 %r2, [step]; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r3, %r2, %r1; mov.u32 %r5, dynamic; add.u32 %r5, %r5, %r4; st.shared.u8 [%r5], %r3; ret; }\n"
    // The same through a generic address.
    ".visible .entry shared_generic(.param .u32 first, .param .u32 step) {\n"
    "  .reg .b32 %r<6>; .reg .b64 %rd<4>; ld.param.u32 %r1, [first]; ld.param.u32 %r2, [step]; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r3, %r2, %r1; mov.u64 %rd1, dynamic; cvta.shared.u64 %rd2, %rd1; cvt.s64.s32 %rd3, %r4;\n"
    "  add.s64 %rd2, %rd2, %rd3; st.u8 [%rd2], %r3; ret; }\n"
    ".visible .entry shared_add(.param .u32 first, .param .u32 step) {\n"
    "  .reg .b32 %r<6>; ld.param.u32 %r1, [first]; ld.param.u32 %r2, [step]; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r3, %r2, %r1; mov.u32 %r5, dynamic; add.u32 %r5, %r5, %r4; red.shared.add.u32 [%r5], 1; ret; }\n"
    ".visible .entry local(.param .u32 at) {\n"
    "  .local .align 4 .b8 a[64]; .reg .b32 %r<4>; ld.param.u32 %r1, [at]; mov.u32 %r2, a; add.u32 %r2, %r2, %r1;\n"
    "  st.local.u8 [%r2], %r1; ret; }\n"
    ".visible .entry param(.param .u64 o, .param .s32 at, .param .align 4 .b8 last[20]) {\n"
    "  .reg .b64 %rd<6>; .reg .b32 %r<3>; ld.param.u64 %rd1, [o]; ld.param.s32 %r1, [at]; cvt.s64.s32 %rd2, %r1;\n"
    "  mov.b64 %rd3, last; add.s64 %rd3, %rd3, %rd2; ld.param.u8 %r2, [%rd3]; st.global.u32 [%rd1], %r2; ret; }\n"
    // Writes `target` to the parameter `p` through its generic address, then stores through the new value of p.
    ".visible .entry replace(.param .u64 p, .param .u64 target) {\n"
    "  .reg .b64 %rd<6>; ld.param.u64 %rd2, [target]; mov.u64 %rd3, p; cvta.param.u64 %rd3, %rd3; st.u64 [%rd3], %rd2;\n"
    "  ld.param.u64 %rd1, [p]; mov.u64 %rd4, 42; st.global.u64 [%rd1], %rd4; ret; }\n"
    ".visible .entry replace_atomically(.param .u64 p, .param .u64 target) {\n"
    "  .reg .b64 %rd<6>; ld.param.u64 %rd2, [target]; mov.u64 %rd3, p; cvta.param.u64 %rd3, %rd3;\n"
    "  atom.exch.b64 %rd5, [%rd3], %rd2; ld.param.u64 %rd1, [p]; mov.u64 %rd4, 42; st.global.u64 [%rd1], %rd4; ret; }\n"
    ".visible .entry replace_in_place(.param .u64 p, .param .u64 target) {\n"
    "  .reg .b64 %rd<6>; ld.param.u64 %rd2, [target]; mov.u64 %rd3, p; st.param.u64 [%rd3], %rd2;\n"
    "  ld.param.u64 %rd1, [p]; mov.u64 %rd4, 42; st.global.u64 [%rd1], %rd4; ret; }\n"
    WALK("walk_pointer", "%rd1", "mov.u64 %rd10, %rd1;", "0", "ld.global.u8 %r4, [%rd10];")
    WALK("leap_pointer", "%rd1", "mov.u64 %rd10, %rd1;", "0", "")
    WALK("walk_counter", "%rd6", "add.s64 %rd10, %rd1, %rd6;", "0", "ld.global.u8 %r4, [%rd10];")
    WALK("leap_counter", "%rd6", "add.s64 %rd10, %rd1, %rd6;", "0", "")
    WALK("walk_index", "%rd6", "shl.b64 %rd8, %rd6, 3; add.s64 %rd10, %rd1, %rd8;", "3", "ld.global.u8 %r4, [%rd10];");

static CUmodule module;
static CUdeviceptr out;
static unsigned threads;

static void load_kernels(void) {
    start();
    REQUIRE(cuModuleLoadData(&module, PTX));
    REQUIRE(cuMemAlloc_v2(&out, 4096));
}

static CUresult launch_with(const char *name, unsigned blocks, unsigned block, unsigned shared, void **params) {
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, name));
    EXPECT(cuLaunchKernel(function, blocks, 1, 1, block, 1, 1, shared, NULL, params, NULL), SUCCESS);
    CUresult result = cuCtxSynchronize();
    if (result != SUCCESS) {
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        load_kernels();
    }
    return result;
}

static CUresult launch(const char *name, void **params) { return launch_with(name, 1, 1, 0, params); }

// Checks that each instruction that accesses memory fails at the host's address `host` and does not change the memory.
static void refused(const void *host) {
    uint64_t before = *(const volatile uint64_t *)host;
    uint64_t p = (uint64_t)(uintptr_t)host;
    void *params[] = {&p, &out};
    const char *names[] = {"load",     "store",  "store_strong", "store_vector",
                           "exchange", "reduce", "copy_async",   "print"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        EXPECT(launch(names[i], params), ILLEGAL_ADDRESS);
        CHECK(*(const volatile uint64_t *)host == before);
    }
}

// Checks that kernels cannot write their parameters. They must not, because a launch tests its pointer parameters once.
static void read_only_parameters(const void *host) {
    uint64_t before = *(const volatile uint64_t *)host, target = (uint64_t)(uintptr_t)host;
    const char *names[] = {"replace", "replace_atomically", "replace_in_place"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        void *params[] = {&out, &target};
        EXPECT(launch_with(names[i], 4, threads, 0, params), ILLEGAL_ADDRESS);
        CHECK(*(const volatile uint64_t *)host == before);
    }
}

static CUresult add(const char *name, uint64_t p, unsigned n) {
    uint64_t cell = p;
    if (strcmp(name, "add_indirect") == 0) {
        REQUIRE(cuMemcpyHtoD_v2(out, &p, 8));
        cell = out;
    }
    void *params[] = {&cell, &n};
    return launch_with(name, (n + threads - 1) / threads, threads, 0, params);
}

// Checks that registered memory is accessible up to its last byte and not beyond, also if the last block has threads
// beyond the last element.
static void registered(unsigned elements) {
    const char *names[] = {"add", "add_indirect"};
    size_t page = 4096, bytes = (elements * 4 + page - 1) / page * page;
    char *memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    // The registration ends with the last element. The program's own memory follows.
    uint32_t *first = (uint32_t *)(memory + bytes - elements * 4);
    for (size_t i = 0; i < 2; ++i) {
        memset(memory, 0, bytes + page);
        EXPECT(add(names[i], (uint64_t)(uintptr_t)first, 8), ILLEGAL_ADDRESS);
        REQUIRE(cuMemHostRegister_v2(first, elements * 4, 0));
        // add_indirect exchanges elements within groups of eight, so `elements` is a multiple of 8.
        EXPECT(add(names[i], (uint64_t)(uintptr_t)first, elements), SUCCESS);
        for (unsigned e = 0; e < elements; ++e) CHECK(first[e] == 1);
        EXPECT(add(names[i], (uint64_t)(uintptr_t)first, elements + 8), ILLEGAL_ADDRESS);
        CHECK(*(uint32_t *)(memory + bytes) == 0);
        EXPECT(add(names[i], (uint64_t)(uintptr_t)(first - 8), elements), ILLEGAL_ADDRESS);
        // The reset after the fault has ended all registrations, so this call may fail.
        cuMemHostUnregister(first);
    }
    munmap(memory, bytes + page);
}

// Runs a kernel that moves in steps from device memory to a target, with an access at every step (walk) or only at the
// target (leap).
static CUresult walk(const char *name, uint64_t from, uint64_t target) {
    int sign = target < from ? -1 : 1;
    int far = sign * (1 << 30), middle = sign * (1 << 18), near = sign * 2;
    void *params[] = {&from, &target, &far, &middle, &near};
    return launch_with(name, 1, threads, 0, params);
}

static void walks(const void *host) {
    const char *names[] = {"walk_pointer", "leap_pointer", "walk_counter", "leap_counter", "walk_index"};
    uint64_t before = *(const volatile uint64_t *)host;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        EXPECT(walk(names[i], out + 64, (uint64_t)(uintptr_t)host), ILLEGAL_ADDRESS);
        CHECK(*(const volatile uint64_t *)host == before);
        CUdeviceptr large;
        const size_t bytes = 8 << 20;
        REQUIRE(cuMemAlloc_v2(&large, bytes));
        const uint64_t ends[][2] = {{16, bytes - 8}, {bytes - 16, 24}};
        for (size_t way = 0; way < 2; ++way) {
            uint64_t value = 0;
            // The smallest step of walk_index is 2 * 4 units of 8 bytes.
            uint64_t from = large + ends[way][0], to = large + ends[way][1];
            EXPECT(walk(names[i], from, to), SUCCESS);
            if (strcmp(names[i], "walk_index") == 0) to = from + (int64_t)(to - from) / 64 * 64;
            EXPECT(cuMemcpyDtoH_v2(&value, to, 8), SUCCESS);
            CHECK(value == 42);
        }
        REQUIRE(cuMemFree_v2(large));
    }
}

// Checks that the valid offsets in `bytes` of shared memory are 0 to bytes - 1. The size is rounded up to 16 bytes.
static void shared_memory(unsigned bytes, unsigned block) {
    unsigned end = (bytes + 15) / 16 * 16;
    const char *names[] = {"shared", "shared_generic"};
    for (size_t i = 0; i < 2; ++i) {
        unsigned step = 1, first = bytes - block;
        void *params[] = {&first, &step};
        EXPECT(launch_with(names[i], 1, block, bytes, params), SUCCESS);
        first = end - block + 1;
        EXPECT(launch_with(names[i], 1, block, bytes, params), ILLEGAL_ADDRESS);
        first = -1u;
        EXPECT(launch_with(names[i], 1, block, bytes, params), ILLEGAL_ADDRESS);
        first = 1 << 20;
        EXPECT(launch_with(names[i], 1, block, bytes, params), ILLEGAL_ADDRESS);
    }
    unsigned first = (bytes & ~3u) - 4, step = 0;
    void *params[] = {&first, &step};
    EXPECT(launch_with("shared_add", 1, block, bytes, params), SUCCESS);
    first = end;
    EXPECT(launch_with("shared_add", 1, block, bytes, params), ILLEGAL_ADDRESS);
}

int main(int argc, char **argv) {
    threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    static uint64_t data[4] = {1, 2, 3, 4};
    uint64_t stack[4] = {1, 2, 3, 4};
    uint64_t *heap = calloc(4, 8);
    load_kernels();
    int pageable = 1;
    EXPECT(cuDeviceGetAttribute(&pageable, 88, 0), SUCCESS);
    CHECK(pageable == 0);
    uint64_t *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    refused(stack + ((uintptr_t)stack % 16 != 0));
    refused(data + ((uintptr_t)data % 16 != 0));
    refused(heap);
    refused(mapped);
    read_only_parameters(stack);
    read_only_parameters(mapped);
    walks(stack);
    walks(mapped);
    registered(8);
    registered(1000);
    registered(70000);
    for (unsigned bytes = 96; bytes <= 112; bytes += 5) shared_memory(bytes, threads > 64 ? 64 : threads);
    shared_memory(4096, threads);
    // The thread's stack may follow its variables, so only a large offset is certainly invalid.
    for (unsigned at = 63; at <= 1 << 20; at += (1 << 20) - 63) {
        void *params[] = {&at};
        EXPECT(launch("local", params), at == 63 ? SUCCESS : ILLEGAL_ADDRESS);
    }
    // The last parameter is at offsets 12 to 31, the end of the parameters.
    char last[20] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 5};
    for (int at = -13; at <= 20; at += at == -13 || at == 19 ? 1 : 31) {
        void *params[] = {&out, &at, last};
        int inside = at >= -12 && at <= 19;
        EXPECT(launch("param", params), inside ? SUCCESS : ILLEGAL_ADDRESS);
        uint32_t value = 0;
        EXPECT(cuMemcpyDtoH_v2(&value, out, 4), SUCCESS);
        if (at == 19) CHECK(value == 5);
    }
    free(heap);
    return finish();
}
