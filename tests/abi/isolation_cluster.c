// Checks that the CTAs of a cluster access the shared memory of each CTA up to its last byte and not beyond, and no
// memory between or after the shared memories (docs/security.md, rule 4).
//
// The argument is the number of threads in a block.
#include "abi.h"

// The CTA with rank `from` writes a byte at offset `at` of the shared memory of the CTA with rank `to`, reads it back
// and writes it to `out`. Kernel `generic` does the same through a generic address. Kernel `own` uses offsets from the
// shared memory of the CTA `from` itself.
#define KERNEL(name, body) \
    ".visible .entry " name "(.param .u64 out, .param .u32 from, .param .u32 to, .param .u32 at) {\n" \
    "  .reg .b64 %rd<8>; .reg .b32 %r<12>; .reg .pred %q;\n" \
    "  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [from]; ld.param.u32 %r2, [to]; ld.param.u32 %r3, [at];\n" \
    "  mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, bytes; mov.u32 %r6, 77;\n" \
    "  setp.ne.u32 %q, %r4, %r1; @%q bra done;\n" \
    body "  st.global.u32 [%rd1], %r7;\n" \
    "done: barrier.cluster.arrive; barrier.cluster.wait; ret; }\n"

static const char PTX[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .shared .align 16 .b8 bytes[];\n"
    KERNEL("cluster", "  mapa.shared::cluster.u32 %r8, %r5, %r2; add.u32 %r8, %r8, %r3;\n"
                      "  st.shared::cluster.u8 [%r8], %r6; ld.shared::cluster.u8 %r7, [%r8];\n")
    KERNEL("generic", "  cvt.u64.u32 %rd2, %r5; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r2;\n"
                      "  cvt.s64.s32 %rd4, %r3; add.u64 %rd3, %rd3, %rd4; st.u8 [%rd3], %r6; ld.u8 %r7, [%rd3];\n")
    KERNEL("own", "  add.u32 %r8, %r5, %r3; st.shared.u8 [%r8], %r6; ld.shared.u8 %r7, [%r8];\n");

enum { CLUSTER_DIMENSION = 4 };

typedef struct {
    int id;
    char pad[4];
    union {
        char bytes[64];
        unsigned cluster[3];
    } value;
} Attribute;

typedef struct {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    Attribute *attributes;
    unsigned count;
} Config;

CUresult cuLaunchKernelEx(const Config *config, CUfunction function, void **params, void **extra);

static CUmodule module;
static CUdeviceptr out;
static unsigned threads;

static void load_kernels(void) {
    start();
    REQUIRE(cuModuleLoadData(&module, PTX));
    REQUIRE(cuMemAlloc_v2(&out, 4096));
}

// Launches one cluster of `ranks` CTAs with `bytes` of shared memory each, and checks whether the access is permitted.
static void check(const char *name, unsigned ranks, unsigned bytes, unsigned from, unsigned to, unsigned at, int valid) {
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, name));
    Attribute cluster = {.id = CLUSTER_DIMENSION, .value.cluster = {ranks, 1, 1}};
    Config config = {{ranks, 1, 1}, {threads, 1, 1}, bytes, NULL, &cluster, 1};
    void *params[] = {&out, &from, &to, &at};
    REQUIRE(cuMemsetD8_v2(out, 0, 4));
    EXPECT(cuLaunchKernelEx(&config, function, params, NULL), SUCCESS);
    CUresult result = cuCtxSynchronize();
    if (result != (valid ? SUCCESS : ILLEGAL_ADDRESS))
        fprintf(stderr, "%s: %u CTAs of %u bytes, from %u to %u, offset %d\n", name, ranks, bytes, from, to, (int)at);
    EXPECT(result, valid ? SUCCESS : ILLEGAL_ADDRESS);
    if (result != SUCCESS) {
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        load_kernels();
        return;
    }
    uint32_t value = 0;
    EXPECT(cuMemcpyDtoH_v2(&value, out, 4), SUCCESS);
    CHECK(value == 77);
}

int main(int argc, char **argv) {
    threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    load_kernels();
    const unsigned sizes[] = {256, 1000, 1024, 40000};
    for (unsigned ranks = 1; ranks <= 4; ++ranks) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
            // The size is rounded up to 16 bytes.
            unsigned bytes = sizes[i], end = (bytes + 15) / 16 * 16, last = ranks - 1;
            const char *names[] = {"cluster", "generic"};
            for (size_t k = 0; k < 2; ++k) {
                for (unsigned to = 0; to < ranks; ++to) {
                    check(names[k], ranks, bytes, 0, to, 0, 1);
                    check(names[k], ranks, bytes, last, to, bytes - 1, 1);
                    // If a CTA has 1024 bytes, the shared memory of the next CTA follows it.
                    if (bytes != 1024) check(names[k], ranks, bytes, to, to, end, 0);
                }
                check(names[k], ranks, bytes, 0, last, end, 0);
                check(names[k], ranks, bytes, 0, last, bytes + 5000, 0);
                check(names[k], ranks, bytes, 0, 0, -1u, 0);
            }
            check("own", ranks, bytes, last, 0, bytes - 1, 1);
            check("own", ranks, bytes, last, 0, end, 0);
            check("own", ranks, bytes, last, 0, 1 << 20, 0);
            check("own", ranks, bytes, 0, 0, -1u, 0);
        }
    }
    return finish();
}
