// Tests allocations of graphs (their lifetime over several launches, who frees them, the counters of their memory) and
// conditional nodes.
#include "graphs.h"

CUresult cuMemPoolCreate(void **, const PoolProps *);
CUresult cuMemPoolDestroy(void *);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);

static CUcontext context;
static CUdevice device;
static CUstream stream;

static uint64_t counted(int attribute) {
    uint64_t value = 1234567;
    EXPECT(cuDeviceGetGraphMemAttribute(device, attribute, &value), SUCCESS);
    return value;
}

static AllocParams request(size_t bytes) {
    return (AllocParams){.props = {.type = 1, .location = {1, device}}, .bytes = bytes};
}

// The graph allocates, uses and frees memory.
static void inside(void) {
    CUgraph graph, clone;
    CUgraphNode alloc, fill, step, back, free_node;
    CUgraphExec exec, second;
    unsigned out = 0;
    REQUIRE(cuGraphCreate(&graph, 0));
    AllocParams params = request(4096);
    EXPECT(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, NULL), INVALID_VALUE);
    AllocParams none = request(0), host = request(64);
    host.props.location.type = 9;
    EXPECT(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &none), INVALID_VALUE);
    EXPECT(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &host), INVALID_VALUE);
    REQUIRE(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    CUdeviceptr x = params.pointer;
    CHECK(x != 0);
    AllocParams told;
    EXPECT(cuGraphMemAllocNodeGetParams(alloc, &told), SUCCESS);
    CHECK(told.pointer == x && told.bytes == 4096);
    FillParams two = {.dst = x, .value = 2, .element = 4, .width = 1024, .height = 1};
    REQUIRE(cuGraphAddMemsetNode(&fill, graph, &alloc, 1, &two, context));
    step = add_step(graph, x + 4092, 1, &fill, 1);
    CopyParams copy = copy_of(&out, 0, NULL, x + 4092, 4);
    REQUIRE(cuGraphAddMemcpyNode(&back, graph, &step, 1, &copy, context));
    REQUIRE(cuGraphAddMemFreeNode(&free_node, graph, &back, 1, x));
    EXPECT(cuGraphAddMemFreeNode(&free_node, graph, &back, 1, x), INVALID_VALUE);
    EXPECT(cuGraphAddMemFreeNode(&free_node, graph, &back, 1, x + 4), INVALID_VALUE);
    // A graph with memory nodes cannot be cloned, changed in these ways, or instantiated twice.
    EXPECT(cuGraphClone(&clone, graph), INVALID_VALUE);
    EXPECT(cuGraphDestroyNode(step), INVALID_VALUE);
    EXPECT(cuGraphRemoveDependencies(graph, &fill, &step, 1), INVALID_VALUE);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphInstantiateWithFlags(&second, graph, 0), INVALID_VALUE);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(counted(0) == 0);
    for (int i = 0; i < 3; ++i) {
        out = 0;
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(out == 2 * 3 + 1);
    }
    // The memory is freed but still mapped.
    CHECK(counted(0) >= 4096 && counted(1) >= 4096 && counted(2) >= 4096);
    EXPECT(cuMemFree_v2(x), INVALID_VALUE);
    EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
    CHECK(counted(0) == 0 && counted(2) == 0 && counted(1) >= 4096);
    EXPECT(cuGraphUpload(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(counted(0) >= 4096 && counted(2) >= 4096);
    EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
    EXPECT(cuDeviceSetGraphMemAttribute(device, 1, &(uint64_t){0}), SUCCESS);
    EXPECT(cuDeviceSetGraphMemAttribute(device, 0, &(uint64_t){0}), INVALID_VALUE);
    CHECK(counted(1) == 0);
    EXPECT(cuDeviceGetGraphMemAttribute(device, 9, &(uint64_t){0}), INVALID_VALUE);
    EXPECT(cuDeviceGetGraphMemAttribute(99, 0, &(uint64_t){0}), INVALID_DEVICE);
    EXPECT(cuDeviceGraphMemTrim(99), INVALID_DEVICE);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

static CUgraph allocating(CUdeviceptr *x) {
    CUgraph graph;
    CUgraphNode alloc, fill;
    REQUIRE(cuGraphCreate(&graph, 0));
    AllocParams params = request(64);
    REQUIRE(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    FillParams nine = {.dst = params.pointer, .value = 9, .element = 4, .width = 16, .height = 1};
    REQUIRE(cuGraphAddMemsetNode(&fill, graph, &alloc, 1, &nine, context));
    *x = params.pointer;
    return graph;
}

// The graph allocates memory. Other work uses and frees it.
static void outside(void) {
    CUdeviceptr x;
    CUgraphExec exec;
    CUgraph graph = allocating(&x);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuMemFree_v2(x), INVALID_VALUE);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    CHECK(counted(0) == 64);
    EXPECT(cuGraphLaunch(exec, stream), INVALID_VALUE);
    EXPECT(launch_step(stream, x, 1), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == 9 * 3 + 1);
    EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
    CHECK(counted(0) == 64); // The memory is in use.
    EXPECT(cuMemFreeAsync(x, stream), SUCCESS);
    CHECK(counted(0) == 64);
    EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
    CHECK(counted(0) == 0);
    EXPECT(cuMemFreeAsync(x, stream), INVALID_VALUE);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuMemFree_v2(x), SUCCESS);
    // The memory stays allocated after the graphs are destroyed.
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == 9);
    EXPECT(cuMemFree_v2(x), SUCCESS);
    EXPECT(cuMemFree_v2(x), INVALID_VALUE);
    CHECK(counted(0) == 64 && counted(2) == 64); // The memory stays mapped until a trim or use by another graph.
    // Each launch of this graph frees the memory that its previous launch left allocated.
    graph = allocating(&x);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 1));
    for (int i = 0; i < 3; ++i)
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    CHECK(counted(0) == 64);
    // Another graph frees the memory.
    CUgraph freeing;
    CUgraphExec freeing_exec;
    CUgraphNode node;
    REQUIRE(cuGraphCreate(&freeing, 0));
    REQUIRE(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, x));
    EXPECT(cuGraphAddMemFreeNode(&node, graph, NULL, 0, x), INVALID_VALUE);
    REQUIRE(cuGraphInstantiateWithFlags(&freeing_exec, freeing, 0));
    EXPECT(cuGraphLaunch(freeing_exec, stream), SUCCESS);
    EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
    CHECK(counted(0) == 0);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    EXPECT(cuGraphExecDestroy(freeing_exec), SUCCESS);
    EXPECT(cuGraphDestroy(freeing), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

// Regression test: calls could copy and fill memory of a graph when it was not live.
static void not_live(void) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    unsigned word = 0;
    AllocParams params = request(1 << 20);
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUdeviceptr place = params.pointer, inside = place + 4096;
    for (int launch = 0; launch < 3; ++launch) {
        EXPECT(cuMemsetD32Async(inside, 7, 1, stream), INVALID_VALUE);
        EXPECT(cuMemcpyHtoD_v2(inside, &word, 4), INVALID_VALUE);
        EXPECT(cuMemcpyDtoH_v2(&word, inside, 4), INVALID_VALUE);
        EXPECT(cuMemcpyDtoHAsync_v2(&word, inside, 4, stream), INVALID_VALUE);
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuMemsetD32Async(inside, 7, 1, stream), SUCCESS);
        EXPECT(cuMemcpyDtoHAsync_v2(&word, inside, 4, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(word == 7);
        EXPECT(launch == 0 ? cuMemFree_v2(place) : cuMemFreeAsync(place, stream), SUCCESS);
        if (launch == 1) {
            EXPECT(cuStreamSynchronize(stream), SUCCESS);
            EXPECT(cuDeviceGraphMemTrim(device), SUCCESS);
        }
    }
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

static void captured(void) {
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr x, kept;
    unsigned out = 0;
    REQUIRE(cuMemAlloc_v2(&kept, 4));
    REQUIRE(cuStreamBeginCapture_v2(stream, GLOBAL));
    EXPECT(cuMemAllocAsync(&x, 256, stream), SUCCESS);
    EXPECT(cuMemsetD32Async(x, 4, 64, stream), SUCCESS);
    EXPECT(launch_step(stream, x, 5), SUCCESS);
    EXPECT(cuMemcpyDtoHAsync_v2(&out, x, 4, stream), SUCCESS);
    EXPECT(cuMemFreeAsync(x, stream), SUCCESS);
    EXPECT(cuStreamEndCapture(stream, &graph), SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) {
        out = 0;
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(out == 4 * 3 + 5);
    }
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    REQUIRE(cuMemFree_v2(kept));
}

// Tests memory that the host can access: managed memory, and pinned memory of the host. A graph writes the memory, and
// the host reads it in place.
static void seen_by_the_host(void) {
    static const struct {
        int type, location, memory_type, managed;
    } kinds[] = {{2, 1, 2, 1}, {2, 2, 2, 1}, {2, 0, 2, 1}, {1, 2, 1, 0}, {1, 3, 1, 0}};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    CUgraph graph;
    CUgraphNode node, fill;
    CUgraphExec exec;
    REQUIRE(cuGraphCreate(&graph, 0));
    AllocParams wrong = request(64);
    wrong.props.location.id = 99;
    EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    wrong = request(64);
    wrong.props.type = 7;
    EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    wrong = request(64);
    wrong.props.location.type = 4; // The NUMA node of the calling thread.
    EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    wrong = request(64);
    wrong.props.location.type = 0;
    EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    for (int i = 0; i < KINDS; ++i) {
        int value = -1;
        AllocParams params = request(4096), told;
        params.props.type = kinds[i].type;
        params.props.location.type = kinds[i].location;
        REQUIRE(cuGraphCreate(&graph, 0));
        EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), SUCCESS);
        EXPECT(cuGraphMemAllocNodeGetParams(node, &told), SUCCESS);
        CHECK(told.props.type == kinds[i].type && told.props.location.type == kinds[i].location);
        CHECK(told.pointer == params.pointer && told.bytes == 4096 && told.props.location.id == 0);
        FillParams seven = {.dst = params.pointer, .value = 7, .element = 4, .width = 1024, .height = 1};
        REQUIRE(cuGraphAddMemsetNode(&fill, graph, &node, 1, &seven, context));
        add_step(graph, params.pointer + 4092, 1, &fill, 1);
        REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
        uint64_t before = counted(0);
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(counted(0) == before); // The counter covers device memory only.
        const volatile unsigned *words = (const volatile unsigned *)(uintptr_t)params.pointer;
        CHECK(words[0] == 7 && words[1022] == 7 && words[1023] == 7 * 3 + 1);
        EXPECT(cuPointerGetAttribute(&value, 2, params.pointer), SUCCESS);
        CHECK(value == kinds[i].memory_type);
        value = 0;
        EXPECT(cuPointerGetAttribute(&value, 8, params.pointer), SUCCESS);
        CHECK((value & 0xff) == kinds[i].managed);
        EXPECT(cuGraphLaunch(exec, stream), INVALID_VALUE);
        EXPECT(i % 2 ? cuMemFreeAsync(params.pointer, stream) : cuMemFree_v2(params.pointer), SUCCESS);
        EXPECT(cuMemFree_v2(params.pointer), INVALID_VALUE);
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuMemFree_v2(params.pointer), SUCCESS);
        EXPECT(cuGraphExecDestroy(exec), SUCCESS);
        EXPECT(cuGraphDestroy(graph), SUCCESS);
    }
    // A capture allocates from pools of such memory.
    for (int i = 0; i < KINDS; ++i) {
        PoolProps props = {.type = kinds[i].type, .location = {kinds[i].location, 0}};
        void *pool;
        CUdeviceptr x;
        REQUIRE(cuMemPoolCreate(&pool, &props));
        REQUIRE(cuStreamBeginCapture_v2(stream, GLOBAL));
        EXPECT(cuMemAllocFromPoolAsync(&x, 4096, pool, stream), SUCCESS);
        EXPECT(cuMemsetD32Async(x, 5, 1024, stream), SUCCESS);
        EXPECT(cuStreamEndCapture(stream, &graph), SUCCESS);
        REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(*(const volatile unsigned *)(uintptr_t)x == 5);
        EXPECT(cuMemFreeAsync(x, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        EXPECT(cuGraphExecDestroy(exec), SUCCESS);
        EXPECT(cuGraphDestroy(graph), SUCCESS);
        EXPECT(cuMemPoolDestroy(pool), SUCCESS);
    }
}

static CUfunction countdown, choose;

static void nothing(void *data) {
    (void)data;
}

static CUgraphNode conditional(CUgraph graph, unsigned kind, unsigned size, unsigned long long handle,
                               const CUgraphNode *before, size_t count, CUgraph *bodies) {
    CUgraphNode node = NULL;
    NodeParams params = {.kind = NODE_CONDITIONAL,
                         .conditional = {.handle = handle, .kind = kind, .size = size, .ctx = context}};
    REQUIRE(cuGraphAddNode(&node, graph, before, count, &params));
    for (unsigned i = 0; i < size; ++i)
        bodies[i] = params.conditional.graphs[i];
    return node;
}

static CUgraphNode add_setter(CUgraph graph, CUfunction function, unsigned long long handle, CUdeviceptr x,
                              const CUgraphNode *before, size_t count) {
    CUgraphNode node = NULL;
    void *params[] = {&handle, &x};
    KernelParams kernel = {.func = function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
    REQUIRE(cuGraphAddKernelNode_v2(&node, graph, before, count, &kernel));
    return node;
}

// Tests a loop whose body counts *n down, then an if-else node and a switch node whose value is *k.
static void conditionals(void) {
    CUgraph graph, bodies[3], other;
    CUgraphExec exec, second;
    unsigned long long loop, choice, many;
    CUdeviceptr n, x, k;
    REQUIRE(cuMemAlloc_v2(&n, 4));
    REQUIRE(cuMemAlloc_v2(&x, 4));
    REQUIRE(cuMemAlloc_v2(&k, 4));
    REQUIRE(cuGraphCreate(&graph, 0));
    EXPECT(cuGraphConditionalHandleCreate(&loop, graph, context, 1, 2), INVALID_VALUE);
    EXPECT(cuGraphConditionalHandleCreate(NULL, graph, context, 1, 1), INVALID_VALUE);
    REQUIRE(cuGraphConditionalHandleCreate(&loop, graph, context, 1, 1));
    // A graph cannot be instantiated before each of its conditional handles has a node.
    InstantiateParams how = {0};
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &how), INVALID_VALUE);
    CHECK(how.result == 5);
    NodeParams wrong = {.kind = NODE_CONDITIONAL, .conditional = {.handle = loop, .kind = 1, .size = 2}};
    CUgraphNode node;
    EXPECT(cuGraphAddNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    wrong.conditional.kind = 7, wrong.conditional.size = 1;
    EXPECT(cuGraphAddNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    wrong.conditional.kind = 1, wrong.conditional.handle = 12345678;
    EXPECT(cuGraphAddNode(&node, graph, NULL, 0, &wrong), INVALID_VALUE);
    CUgraphNode turn = conditional(graph, 1, 1, loop, NULL, 0, bodies);
    CUgraphNode step = add_step(bodies[0], x, 1, NULL, 0);
    add_setter(bodies[0], countdown, loop, n, &step, 1);
    REQUIRE(cuGraphConditionalHandleCreate(&choice, graph, context, 0, 0));
    CUgraphNode chooser = add_setter(graph, choose, choice, k, &turn, 1);
    CUgraphNode branch = conditional(graph, 0, 2, choice, &chooser, 1, bodies);
    add_step(bodies[0], x, 50, NULL, 0);
    add_step(bodies[1], x, 60, NULL, 0);
    REQUIRE(cuGraphConditionalHandleCreate(&many, graph, context, 0, 0));
    CUgraphNode selector = add_setter(graph, choose, many, k, &branch, 1);
    CUgraphNode cases = conditional(graph, 2, 3, many, &selector, 1, bodies);
    for (unsigned i = 0; i < 3; ++i)
        add_step(bodies[i], x, 100 + i, NULL, 0);
    add_step(graph, x, 7, &cases, 1);
    NodeParams told;
    EXPECT(cuGraphNodeGetParams(cases, &told), SUCCESS);
    CHECK(told.kind == NODE_CONDITIONAL && told.conditional.size == 3 && told.conditional.graphs[2] == bodies[2]);
    // A graph with conditional nodes cannot be cloned or instantiated twice.
    EXPECT(cuGraphClone(&other, graph), INVALID_VALUE);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphInstantiateWithFlags(&second, graph, 0), INVALID_VALUE);
    for (unsigned start_n = 1; start_n <= 40; start_n += 13) {
        for (unsigned start_k = 0; start_k < 5; ++start_k) {
            write_word(n, start_n);
            write_word(x, 1);
            write_word(k, start_k);
            EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
            EXPECT(cuStreamSynchronize(stream), SUCCESS);
            unsigned want = 1;
            for (unsigned i = 0; i < start_n; ++i)
                want = want * 3 + 1;
            want = want * 3 + (start_k ? 50 : 60);
            if (start_k < 3)
                want = want * 3 + 100 + start_k;
            want = want * 3 + 7;
            CHECK(read_word(x) == want);
            CHECK(read_word(n) == 0);
        }
    }
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    // Instantiation returns the node that is not allowed in a body.
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphConditionalHandleCreate(&loop, graph, context, 1, 1));
    conditional(graph, 0, 1, loop, NULL, 0, bodies);
    HostParams host = {nothing, NULL};
    REQUIRE(cuGraphAddHostNode(&node, bodies[0], NULL, 0, &host));
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &how), INVALID_VALUE);
    CHECK(how.result == 3 && how.node == node);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    REQUIRE(cuMemFree_v2(n));
    REQUIRE(cuMemFree_v2(x));
    REQUIRE(cuMemFree_v2(k));
}

// Tests a loop in a loop. Only a launch sets a handle to its default value, so the outer body sets the inner handle.
static void nested(void) {
    CUgraph graph, outer_body, inner_body;
    CUgraphExec exec;
    unsigned long long outer, inner;
    CUdeviceptr n, m, x;
    REQUIRE(cuMemAlloc_v2(&n, 4));
    REQUIRE(cuMemAlloc_v2(&m, 4));
    REQUIRE(cuMemAlloc_v2(&x, 4));
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphConditionalHandleCreate(&outer, graph, context, 1, 1));
    conditional(graph, 1, 1, outer, NULL, 0, &outer_body);
    REQUIRE(cuGraphConditionalHandleCreate(&inner, outer_body, context, 0, 0));
    FillParams three = {.dst = m, .value = 3, .element = 4, .width = 1, .height = 1};
    CUgraphNode fill;
    REQUIRE(cuGraphAddMemsetNode(&fill, outer_body, NULL, 0, &three, context));
    CUgraphNode setter = add_setter(outer_body, choose, inner, m, &fill, 1);
    CUgraphNode loop = conditional(outer_body, 1, 1, inner, &setter, 1, &inner_body);
    CUgraphNode step = add_step(inner_body, x, 1, NULL, 0);
    add_setter(inner_body, countdown, inner, m, &step, 1);
    CUgraphNode after = add_step(outer_body, x, 2, &loop, 1);
    add_setter(outer_body, countdown, outer, n, &after, 1);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    write_word(n, 4);
    write_word(x, 0);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    unsigned want = 0;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 3; ++j)
            want = want * 3 + 1;
        want = want * 3 + 2;
    }
    CHECK(read_word(x) == want);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    REQUIRE(cuMemFree_v2(n));
    REQUIRE(cuMemFree_v2(m));
    REQUIRE(cuMemFree_v2(x));
}

// A reset ends a loop that never ends by itself.
static void endless(void) {
    CUgraph graph, body;
    CUgraphExec exec;
    unsigned long long handle;
    CUdeviceptr x;
    REQUIRE(cuMemAlloc_v2(&x, 4));
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    conditional(graph, 1, 1, handle, NULL, 0, &body);
    add_step(body, x, 1, NULL, 0);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamQuery(stream), NOT_READY);
    EXPECT(cuDevicePrimaryCtxReset_v2(device), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuMemAlloc_v2(&x, 4), SUCCESS);
}

// A reset frees memory of graphs that nothing has freed. Later allocations can have the same addresses.
//
// Regression test: the launch after a reset never returned.
static void across_resets(void) {
    CUdeviceptr first = 0, x = 0;
    CUgraph graph = NULL, kept = NULL;
    CUgraphExec exec;
    for (int i = 0; i < 2000 && (i < 2 || x != first); ++i) {
        graph = allocating(&x);
        if (i == 0) first = x;
        REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
        EXPECT(cuGraphLaunch(exec, NULL), SUCCESS);
        EXPECT(cuCtxSynchronize(), SUCCESS);
        CHECK(read_word(x) == 9);
        EXPECT(cuGraphExecDestroy(exec), SUCCESS);
        EXPECT(cuDevicePrimaryCtxReset_v2(device), SUCCESS);
        CHECK(cuMemFree_v2(x) != SUCCESS);
        if (i == 0)
            kept = graph;
        else
            EXPECT(cuGraphDestroy(graph), SUCCESS);
    }
    CHECK(x == first);
    // The destruction of the first graph does not affect an allocation that has its address.
    graph = NULL;
    for (int i = 0; i < 2000 && (i == 0 || x != first); ++i) {
        if (graph) {
            EXPECT(cuDevicePrimaryCtxReset_v2(device), SUCCESS);
            EXPECT(cuGraphDestroy(graph), SUCCESS);
        }
        graph = allocating(&x);
    }
    CHECK(x == first);
    EXPECT(cuGraphDestroy(kept), SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphLaunch(exec, NULL), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    EXPECT(cuMemFree_v2(x), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

int main(void) {
    context = start();
    REQUIRE(cuDeviceGet(&device, 0));
    CUmodule module = load_steps();
    REQUIRE(cuModuleGetFunction(&countdown, module, "countdown"));
    REQUIRE(cuModuleGetFunction(&choose, module, "choose"));
    REQUIRE(cuStreamCreate(&stream, 1));
    inside();
    outside();
    not_live();
    captured();
    seen_by_the_host();
    conditionals();
    nested();
    endless();
    across_resets();
    return finish();
}
