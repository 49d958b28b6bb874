// Checks that textures and stream memory operations do not access host memory that the program has unregistered, or
// device memory that it has freed, although the memory was valid when the texture or the graph was created.
#define _GNU_SOURCE
#include "graphs.h"

#include <sys/mman.h>

typedef struct CUtexref_st *CUtexref;
typedef unsigned long long CUtexObject;

typedef struct {
    size_t width, height;
    int format;
    unsigned channels;
} Array2D;

typedef struct {
    int type;
    union {
        struct {
            CUdeviceptr address;
            int format;
            unsigned channels;
            size_t bytes;
        } linear;
        struct {
            CUdeviceptr address;
            int format;
            unsigned channels;
            size_t width, height, pitch;
        } pitch;
        int reserved[32];
    } of;
    unsigned flags;
} Resource;

enum { LINEAR = 2, PITCH = 3, FLOAT = 0x20, EQ = 1 };
enum { BYTES = 1 << 16, ROW = 1024 };

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuTexObjectCreate(CUtexObject *texture, const Resource *resource, const void *description, const void *view);
CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name);
CUresult cuTexRefSetFormat(CUtexref reference, int format, int channels);
CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref reference, CUdeviceptr address, size_t bytes);
CUresult cuTexRefSetAddress2D_v3(CUtexref reference, const Array2D *descriptor, CUdeviceptr address, size_t pitch);

#define KERNEL(NAME, PARAMETER, LOAD, TEX)                                                                  \
    ".visible .entry " NAME "(.param .u64 out" PARAMETER ")\n{\n"                                            \
    "  .reg .b64 %p, %o, %t; .reg .b32 %i; .reg .f32 %x, %a, %b, %c, %d;\n"                                  \
    "  ld.param.u64 %p, [out]; " LOAD "mov.u32 %i, %tid.x; cvt.rn.f32.u32 %x, %i;\n"                         \
    "  " TEX "\n"                                                                                            \
    "  mul.wide.u32 %o, %i, 4; add.u64 %p, %p, %o; st.global.f32 [%p], %a; ret;\n}\n"

static const char MODULE[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n.global .texref image;\n"
    KERNEL("ref_1d", "", "", "tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [image, {%i}];")
    KERNEL("ref_2d", "", "", "tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [image, {%x, %x}];")
    KERNEL("object_1d", ", .param .u64 t", "ld.param.u64 %t, [t]; ",
           "tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [%t, {%i}];")
    KERNEL("object_2d", ", .param .u64 t", "ld.param.u64 %t, [t]; ",
           "tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [%t, {%x, %x}];");

static CUmodule module;
static CUdeviceptr out;
static CUtexObject texture;
static CUcontext context;
static CUstream stream;
static float *host;

static void up(void) {
    context = start();
    REQUIRE(cuStreamCreate(&stream, 1));
    REQUIRE(cuMemAlloc_v2(&out, 4096));
    REQUIRE(cuModuleLoadData(&module, MODULE));
}

static void again(void) {
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    up();
}

static void set_host(float value) {
    for (int i = 0; i < BYTES / 4; ++i)
        host[i] = value;
}

// Creates the texture that the kernel `name` uses.
static void make_texture(const char *name, CUdeviceptr address) {
    int is_flat = strstr(name, "2d") != NULL;
    if (name[0] == 'r') {
        CUtexref reference;
        Array2D descriptor = {ROW / 4, BYTES / ROW, FLOAT, 1};
        REQUIRE(cuModuleGetTexRef(&reference, module, "image"));
        REQUIRE(cuTexRefSetFormat(reference, FLOAT, 1));
        if (is_flat)
            REQUIRE(cuTexRefSetAddress2D_v3(reference, &descriptor, address, ROW));
        else
            REQUIRE(cuTexRefSetAddress_v2(NULL, reference, address, BYTES));
        return;
    }
    static const char description[512];
    Resource resource = {.type = is_flat ? PITCH : LINEAR};
    if (is_flat) {
        resource.of.pitch.address = address;
        resource.of.pitch.format = FLOAT;
        resource.of.pitch.channels = 1;
        resource.of.pitch.width = ROW / 4;
        resource.of.pitch.height = BYTES / ROW;
        resource.of.pitch.pitch = ROW;
    } else {
        resource.of.linear.address = address;
        resource.of.linear.format = FLOAT;
        resource.of.linear.channels = 1;
        resource.of.linear.bytes = BYTES;
    }
    REQUIRE(cuTexObjectCreate(&texture, &resource, description, NULL));
}

static CUresult fetch(const char *name, unsigned threads) {
    CUfunction kernel;
    void *params[] = {&out, &texture};
    REQUIRE(cuModuleGetFunction(&kernel, module, name));
    REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
    return cuCtxSynchronize();
}

static float fetched(void) {
    float value = -1;
    REQUIRE(cuMemcpyDtoH_v2(&value, out, 4));
    return value;
}

static void textures(const char *name, unsigned threads) {
    set_host(1);
    REQUIRE(cuMemHostRegister_v2(host, BYTES, 0));
    make_texture(name, (CUdeviceptr)host);
    EXPECT(fetch(name, threads), SUCCESS);
    CHECK(fetched() == 1);
    REQUIRE(cuMemHostUnregister(host));
    REQUIRE(cuMemHostRegister_v2(host, BYTES, 0));
    set_host(2);
    EXPECT(fetch(name, threads), SUCCESS);
    CHECK(fetched() == 2);
    REQUIRE(cuMemHostUnregister(host));
    EXPECT(fetch(name, threads), ILLEGAL_ADDRESS);
    again();

    CUdeviceptr device;
    REQUIRE(cuMemAlloc_v2(&device, BYTES));
    REQUIRE(cuMemsetD8_v2(device, 0, BYTES));
    make_texture(name, device);
    EXPECT(fetch(name, threads), SUCCESS);
    REQUIRE(cuMemFree_v2(device));
    EXPECT(fetch(name, threads), ILLEGAL_ADDRESS);
    again();
}

static MemOp op_of(unsigned operation, CUdeviceptr address, uint64_t value, unsigned flags) {
    MemOp op = {.pad = {0}};
    op.value.operation = operation;
    op.value.address = address;
    op.value.value = value;
    op.value.flags = flags;
    return op;
}

static void set_word(unsigned value) {
    *(volatile unsigned *)host = value;
}

static unsigned word(void) {
    return *(volatile unsigned *)host;
}

// Launches a graph whose memory operation uses memory that was valid when the graph was instantiated.
static void graph_node(MemOp op, int frees) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr address;
    MemOpsParams params = {context, 1, &op, 0};
    if (frees)
        REQUIRE(cuMemAlloc_v2(&address, 4096));
    else
        REQUIRE(cuMemHostRegister_v2(host, BYTES, 0));
    op.value.address = frees ? address : (CUdeviceptr)host;
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    if (frees)
        REQUIRE(cuMemFree_v2(address));
    else
        REQUIRE(cuMemHostUnregister(host));
    set_word(3);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
    CHECK(word() == 3);
    again();
}

static void captured(void) {
    CUgraph graph;
    CUgraphExec exec;
    REQUIRE(cuMemHostRegister_v2(host, BYTES, 0));
    REQUIRE(cuStreamBeginCapture_v2(stream, RELAXED));
    EXPECT(cuStreamWriteValue32_v2(stream, (CUdeviceptr)host, 7, 0), SUCCESS);
    EXPECT(cuStreamWriteValue64_v2(stream, (CUdeviceptr)host + 8, 9, 0), SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    REQUIRE(cuMemHostUnregister(host));
    set_word(3);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
    CHECK(word() == 3);
    again();
}

int main(void) {
    host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    up();
    static const char *const names[] = {"ref_1d", "ref_2d", "object_1d", "object_2d"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; ++i) {
        textures(names[i], 1);
        textures(names[i], 64);
    }
    for (int frees = 0; frees < 2; ++frees) {
        graph_node(op_of(2, 0, 7, 0), frees);   // write 32 bits
        graph_node(op_of(5, 0, 7, 0), frees);   // write 64 bits
        graph_node(op_of(1, 0, 4, EQ), frees);  // wait for a value
    }
    captured();
    return finish();
}
