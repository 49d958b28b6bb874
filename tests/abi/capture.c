// Tests stream capture: the node that each operation becomes, branches, and the error for each violated rule.
#include "graphs.h"
#include <pthread.h>
#include <unistd.h>

enum { NONE, ACTIVE, INVALIDATED };

static CUdevice device;
static CUstream a, b, c;
static CUevent fork_event, join_event, third;
static CUdeviceptr x;

static int status_of(CUstream stream) {
    int status = -1;
    EXPECT(cuStreamIsCapturing(stream, &status), SUCCESS);
    return status;
}

static void run(CUgraph graph) {
    CUgraphExec exec;
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphLaunch(exec, a), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuStreamSynchronize(a), SUCCESS);
}

// Checks that ending an invalidated capture returns `want` and no graph, and that the stream then no longer captures.
static void ends_with(CUstream stream, CUresult want) {
    CUgraph graph = (CUgraph)1;
    EXPECT(cuStreamEndCapture(stream, &graph), want);
    CHECK(graph == NULL);
    CHECK(status_of(stream) == NONE);
}

static void add_five(void *data) {
    *(unsigned *)data += 5;
}

static size_t nodes_of(CUgraph graph, unsigned kind) {
    CUgraphNode nodes[32];
    size_t count = 32, found = 0;
    REQUIRE(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; ++i) {
        unsigned type;
        REQUIRE(cuGraphNodeGetType(nodes[i], &type));
        found += type == kind;
    }
    return found;
}

// Checks that every asynchronous operation becomes a node and that nothing runs before the graph is launched.
static void all_operations(void) {
    CUgraph graph, inner;
    CUgraphExec inner_exec;
    unsigned in = 2, out = 0, called = 0;
    CUdeviceptr y;
    REQUIRE(cuMemAlloc_v2(&y, 16));
    REQUIRE(cuGraphCreate(&inner, 0));
    add_step(inner, x, 9, NULL, 0);
    REQUIRE(cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
    write_word(x, 1000);
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    CHECK(status_of(a) == ACTIVE);
    EXPECT(cuMemcpyHtoDAsync_v2(x, &in, 4, a), SUCCESS);
    EXPECT(launch_step(a, x, 1), SUCCESS);
    EXPECT(cuGraphLaunch(inner_exec, a), SUCCESS);
    EXPECT(cuLaunchHostFunc(a, add_five, &called), SUCCESS);
    EXPECT(cuMemsetD32Async(y, 77, 4, a), SUCCESS);
    EXPECT(cuStreamWriteValue32_v2(a, y, 5, 0), SUCCESS);
    EXPECT(cuEventRecordWithFlags(third, a, 1), SUCCESS);
    EXPECT(cuStreamWaitEvent(a, third, 1), SUCCESS);
    EXPECT(cuMemcpyDtoHAsync_v2(&out, x, 4, a), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    CHECK(status_of(a) == NONE);
    CHECK(called == 0 && read_word(x) == 1000);
    CHECK(nodes_of(graph, NODE_MEMCPY) == 2 && nodes_of(graph, NODE_KERNEL) == 1);
    CHECK(nodes_of(graph, NODE_GRAPH) == 1 && nodes_of(graph, NODE_HOST) == 1);
    CHECK(nodes_of(graph, NODE_MEMSET) == 1 && nodes_of(graph, NODE_MEM_OPS) == 1);
    CHECK(nodes_of(graph, NODE_RECORD) == 1 && nodes_of(graph, NODE_WAIT_EVENT) == 1);
    in = 3;
    run(graph);
    CHECK(out == (3 * 3 + 1) * 3 + 9 && called == 5);
    unsigned words[4];
    REQUIRE(cuMemcpyDtoH_v2(words, y, sizeof words));
    CHECK(words[0] == 5 && words[1] == 77 && words[3] == 77);
    // The parameters of a captured kernel node contain the kernel's function and arguments.
    CUgraphNode nodes[16];
    size_t count = 16;
    REQUIRE(cuGraphGetNodes(graph, nodes, &count));
    KernelParams kernel;
    EXPECT(cuGraphKernelNodeGetParams_v2(nodes[1], &kernel), SUCCESS);
    CHECK(kernel.func == step_function && *(unsigned *)kernel.params[1] == 1);
    CopyParams copy;
    EXPECT(cuGraphMemcpyNodeGetParams(nodes[0], &copy), SUCCESS);
    CHECK(copy.src.kind == 1 && copy.src.host == &in && copy.dst.device == x && copy.width == 4);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuGraphDestroy(inner), SUCCESS);
    EXPECT(cuGraphExecDestroy(inner_exec), SUCCESS);
    REQUIRE(cuMemFree_v2(y));
}

// Stream a forks into b and c, which join a again.
static void branches(void) {
    CUgraph graph, shown = NULL;
    CUdeviceptr y, z;
    REQUIRE(cuMemAlloc_v2(&y, 4));
    REQUIRE(cuMemAlloc_v2(&z, 4));
    write_word(x, 1);
    write_word(y, 0);
    write_word(z, 0);
    REQUIRE(cuStreamBeginCapture_v2(a, THREAD_LOCAL));
    EXPECT(launch_step(a, x, 1), SUCCESS);
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(b, fork_event, 0), SUCCESS);
    CHECK(status_of(b) == ACTIVE && status_of(c) == NONE);
    EXPECT(cuMemcpyDtoHAsync_v2(&(unsigned){0}, x, 4, c), SUCCESS); // c does not capture yet, so this copy runs
    EXPECT(cuStreamWaitEvent(c, fork_event, 0), SUCCESS);
    EXPECT(launch_step(b, y, 2), SUCCESS);
    EXPECT(launch_step(c, z, 3), SUCCESS);
    EXPECT(launch_step(a, x, 4), SUCCESS);
    EXPECT(cuEventRecord(join_event, b), SUCCESS);
    EXPECT(cuEventRecord(third, c), SUCCESS);
    EXPECT(cuStreamWaitEvent(a, join_event, 0), SUCCESS);
    EXPECT(cuStreamWaitEvent(a, third, 0), SUCCESS);
    int status = -1;
    uint64_t id = 0, other_id = 0;
    const CUgraphNode *deps = NULL;
    const EdgeData *data = NULL;
    size_t count = 0;
    EXPECT(cuStreamGetCaptureInfo_v3(a, &status, &id, &shown, &deps, &data, &count), SUCCESS);
    CHECK(status == ACTIVE && id != 0 && count == 3 && deps && data && data[2].type == 0);
    EXPECT(cuStreamGetCaptureInfo_v2(b, &status, &other_id, NULL, &deps, &count), SUCCESS);
    CHECK(other_id == id && count == 1);
    EXPECT(cuStreamGetCaptureInfo(b, &status, NULL), SUCCESS);
    EXPECT(launch_step(a, x, 5), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    CHECK(graph == shown && status_of(b) == NONE && status_of(c) == NONE);
    CUgraphNode from[16], to[16];
    count = 16;
    EXPECT(cuGraphGetEdges(graph, from, to, &count), SUCCESS);
    CHECK(count == 6);
    run(graph);
    CHECK(read_word(x) == ((1 * 3 + 1) * 3 + 4) * 3 + 5 && read_word(y) == 2 && read_word(z) == 3);
    // `fork_event` was last recorded in a capture. Until it is recorded again, queries and waits return an error.
    EXPECT(cuEventQuery(fork_event), CAPTURED_EVENT);
    EXPECT(cuEventSynchronize(fork_event), CAPTURED_EVENT);
    EXPECT(cuStreamWaitEvent(a, fork_event, 0), CAPTURED_EVENT);
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuEventSynchronize(fork_event), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    REQUIRE(cuMemFree_v2(y));
    REQUIRE(cuMemFree_v2(z));
}

// Regression test: a stream that only forks and joins depended on the last nodes of all its forks, so the number of
// edges was quadratic.
static void forks_without_own_work(void) {
    CUgraph graph;
    CUgraphNode from[16], to[16];
    const CUgraphNode *deps = NULL;
    int status = -1;
    size_t count = 0;
    REQUIRE(cuStreamBeginCapture_v2(a, THREAD_LOCAL));
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT(cuEventRecord(fork_event, a), SUCCESS);
        EXPECT(cuStreamWaitEvent(b, fork_event, 0), SUCCESS);
        EXPECT(launch_step(b, x, i), SUCCESS);
        EXPECT(cuEventRecord(join_event, b), SUCCESS);
        EXPECT(cuStreamWaitEvent(a, join_event, 0), SUCCESS);
        EXPECT(cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, &deps, &count), SUCCESS);
        CHECK(status == ACTIVE && count == 1);
    }
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    count = 16;
    EXPECT(cuGraphGetEdges(graph, from, to, &count), SUCCESS);
    CHECK(count == 3);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

static void into_a_graph(void) {
    CUgraph graph, ended = NULL;
    CUgraphExec exec;
    REQUIRE(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_step(graph, x, 1, NULL, 0), last;
    REQUIRE(cuStreamBeginCaptureToGraph(a, graph, &first, NULL, 1, GLOBAL));
    EXPECT(launch_step(a, x, 2), SUCCESS);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0), INVALID_VALUE);
    // The program adds a node to the graph itself and makes the stream's later work depend on this node.
    const CUgraphNode *deps;
    size_t count;
    int status;
    EXPECT(cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, &deps, &count), SUCCESS);
    last = add_step(graph, x, 3, deps, count);
    EXPECT(cuStreamUpdateCaptureDependencies(a, &last, 1, 1), SUCCESS);
    EXPECT(cuStreamUpdateCaptureDependencies(a, &last, 1, 2), INVALID_VALUE);
    EXPECT(cuStreamUpdateCaptureDependencies(b, &last, 1, 1), ILLEGAL_STATE);
    EXPECT(launch_step(a, x, 4), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &ended), SUCCESS);
    CHECK(ended == graph);
    write_word(x, 1);
    run(graph);
    CHECK(read_word(x) == (((1 * 3 + 1) * 3 + 2) * 3 + 3) * 3 + 4);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), INVALID_VALUE);
}

static void rules_of_beginning(void) {
    CUgraph graph;
    EXPECT(cuStreamBeginCapture_v2(NULL, GLOBAL), CAPTURE_UNSUPPORTED);
    EXPECT(cuStreamBeginCapture_v2((CUstream)1, RELAXED), CAPTURE_UNSUPPORTED);
    EXPECT(cuStreamBeginCapture_v2(a, 3), INVALID_VALUE);
    EXPECT(cuStreamEndCapture(a, &graph), ILLEGAL_STATE);
    EXPECT(cuStreamEndCapture(a, NULL), INVALID_VALUE);
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuStreamBeginCapture_v2(a, GLOBAL), ILLEGAL_STATE);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    size_t count = 9;
    EXPECT(cuGraphGetNodes(graph, NULL, &count), SUCCESS);
    CHECK(count == 0);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuStreamIsCapturing(a, NULL), INVALID_VALUE);
    // These flags are valid only in a capture.
    EXPECT(cuEventRecordWithFlags(third, a, 1), INVALID_VALUE);
    EXPECT(cuStreamWaitEvent(a, third, 1), INVALID_VALUE);
}

static void nothing(CUstream stream, CUresult result, void *data) {
    (void)stream, (void)result, (void)data;
}

// Checks that calls that query captured work or wait for it invalidate the capture, and that some other calls do so in
// certain capture modes.
static void forbidden_calls(void) {
    unsigned word = 0;
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuStreamSynchronize(a), CAPTURE_UNSUPPORTED);
    CHECK(status_of(a) == INVALIDATED);
    EXPECT(launch_step(a, x, 1), CAPTURE_INVALIDATED);
    EXPECT(cuStreamQuery(a), CAPTURE_INVALIDATED);
    ends_with(a, CAPTURE_INVALIDATED);
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuStreamQuery(a), CAPTURE_UNSUPPORTED);
    ends_with(a, CAPTURE_INVALIDATED);
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuCtxSynchronize(), CAPTURE_UNSUPPORTED);
    ends_with(a, CAPTURE_INVALIDATED);
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuEventRecord(third, a), SUCCESS);
    EXPECT(cuEventQuery(third), CAPTURED_EVENT);
    ends_with(a, CAPTURE_INVALIDATED);
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuStreamAddCallback(a, nothing, NULL, 0), CAPTURE_UNSUPPORTED);
    ends_with(a, CAPTURE_INVALIDATED);
    // A capture cannot free memory that was allocated outside of it.
    CUdeviceptr y;
    REQUIRE(cuMemAllocAsync(&y, 64, a));
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT_ERROR(cuMemFreeAsync(y, a));
    ends_with(a, CAPTURE_INVALIDATED);
    EXPECT(cuMemFreeAsync(y, a), SUCCESS);
    // Calls that may synchronise invalidate a capture in the mode GLOBAL and succeed in the mode RELAXED.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuMemAlloc_v2(&y, 64), CAPTURE_UNSUPPORTED);
    ends_with(a, CAPTURE_INVALIDATED);
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuMemcpyDtoH_v2(&word, x, 4), CAPTURE_UNSUPPORTED);
    ends_with(a, CAPTURE_INVALIDATED);
    CUgraph graph;
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuMemAlloc_v2(&y, 64), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuMemFree_v2(y), SUCCESS);
    // If the thread itself has the mode RELAXED, these calls also succeed during a capture in the mode GLOBAL.
    int mode = RELAXED;
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuThreadExchangeStreamCaptureMode(&mode), SUCCESS);
    CHECK(mode == GLOBAL);
    EXPECT(cuMemAlloc_v2(&y, 64), SUCCESS);
    EXPECT(cuThreadExchangeStreamCaptureMode(&mode), SUCCESS);
    CHECK(mode == RELAXED);
    mode = 7;
    EXPECT(cuThreadExchangeStreamCaptureMode(&mode), INVALID_VALUE);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuMemFree_v2(y), SUCCESS);
}

// Checks calls in the legacy stream, which would have to wait for a blocking stream that captures.
static void implicit_order(void) {
    CUstream blocking;
    CUgraph graph;
    int status;
    REQUIRE(cuStreamCreate(&blocking, 0));
    REQUIRE(cuStreamBeginCapture_v2(blocking, RELAXED));
    EXPECT(cuStreamIsCapturing(NULL, &status), CAPTURE_IMPLICIT);
    EXPECT(launch_step(NULL, x, 1), CAPTURE_IMPLICIT);
    ends_with(blocking, CAPTURE_INVALIDATED);
    EXPECT(cuStreamIsCapturing(NULL, &status), SUCCESS);
    EXPECT(launch_step(NULL, x, 1), SUCCESS);
    // The legacy stream does not wait for a non-blocking stream, so a capture in such a stream has no effect on it.
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(launch_step(NULL, x, 1), SUCCESS);
    EXPECT(launch_step(a, x, 1), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    // The legacy stream cannot join a capture.
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(NULL, fork_event, 0), CAPTURE_IMPLICIT);
    ends_with(a, CAPTURE_INVALIDATED);
    EXPECT(cuStreamDestroy_v2(blocking), SUCCESS);
    // The per-thread default stream, (CUstream)2, can capture.
    REQUIRE(cuStreamBeginCapture_v2((CUstream)2, RELAXED));
    EXPECT(launch_step((CUstream)2, x, 1), SUCCESS);
    EXPECT(cuStreamEndCapture((CUstream)2, &graph), SUCCESS);
    CHECK(nodes_of(graph, NODE_KERNEL) == 1);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

static void borders(void) {
    CUgraph graph;
    // A branch with work that does not join the stream where the capture began is an error.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(b, fork_event, 0), SUCCESS);
    EXPECT(launch_step(b, x, 1), SUCCESS);
    ends_with(a, CAPTURE_UNJOINED);
    CHECK(status_of(b) == NONE);
    // A branch without work need not join.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(launch_step(a, x, 1), SUCCESS);
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(b, fork_event, 0), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    // A capture cannot end in another stream than the one where it began.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(b, fork_event, 0), SUCCESS);
    EXPECT(cuStreamEndCapture(b, &graph), CAPTURE_UNMATCHED);
    ends_with(a, CAPTURE_INVALIDATED);
    // A captured stream cannot wait for an event that was recorded outside of the capture.
    REQUIRE(cuEventRecord(third, c));
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuStreamWaitEvent(a, third, 0), CAPTURE_ISOLATION);
    ends_with(a, CAPTURE_INVALIDATED);
    // An event cannot merge two captures.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    REQUIRE(cuStreamBeginCapture_v2(b, GLOBAL));
    EXPECT(cuEventRecord(fork_event, a), SUCCESS);
    EXPECT(cuStreamWaitEvent(b, fork_event, 0), CAPTURE_MERGE);
    ends_with(a, CAPTURE_INVALIDATED);
    ends_with(b, CAPTURE_INVALIDATED);
    // The stream of a branch is destroyed. If the branch has work, the missing join is still an error.
    CUstream gone;
    for (int works = 0; works < 2; ++works) {
        REQUIRE(cuStreamCreate(&gone, 1));
        REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
        EXPECT(cuEventRecord(fork_event, a), SUCCESS);
        EXPECT(cuStreamWaitEvent(gone, fork_event, 0), SUCCESS);
        if (works)
            EXPECT(launch_step(gone, x, 1), SUCCESS);
        EXPECT(cuStreamDestroy_v2(gone), SUCCESS);
        if (works) {
            ends_with(a, CAPTURE_UNJOINED);
        } else {
            EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
            EXPECT(cuGraphDestroy(graph), SUCCESS);
        }
    }
    // Destroying the stream where a capture began ends the capture, so `cuMemAlloc` succeeds again.
    REQUIRE(cuStreamCreate(&gone, 1));
    REQUIRE(cuStreamBeginCapture_v2(gone, GLOBAL));
    EXPECT(cuStreamDestroy_v2(gone), SUCCESS);
    CUdeviceptr y;
    EXPECT(cuMemAlloc_v2(&y, 4), SUCCESS);
    EXPECT(cuMemFree_v2(y), SUCCESS);
}

struct Other {
    CUcontext context;
    CUstream stream;
    CUresult allocated, ended;
    int exchange;
};

static void *other_thread(void *data) {
    struct Other *other = data;
    CUdeviceptr y;
    CUgraph graph;
    REQUIRE(cuCtxSetCurrent(other->context));
    if (other->exchange)
        REQUIRE(cuThreadExchangeStreamCaptureMode(&(int){THREAD_LOCAL}));
    other->allocated = cuMemAlloc_v2(&y, 64);
    if (other->allocated == SUCCESS)
        EXPECT(cuMemFree_v2(y), SUCCESS);
    other->ended = cuStreamEndCapture(other->stream, &graph);
    return NULL;
}

static void meanwhile(struct Other *other) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, other_thread, other));
    pthread_join(thread, NULL);
}

static void threads(CUcontext context) {
    CUgraph graph;
    struct Other other = {context, a, SUCCESS, SUCCESS, 0};
    // In the mode GLOBAL, other threads cannot make the forbidden calls either, unless they have exchanged their own
    // mode.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    meanwhile(&other);
    CHECK(other.allocated == CAPTURE_UNSUPPORTED && other.ended == CAPTURE_WRONG_THREAD);
    ends_with(a, CAPTURE_INVALIDATED);
    // The other thread has exchanged its mode for THREAD_LOCAL, so its call succeeds.
    other.exchange = 1;
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    meanwhile(&other);
    CHECK(other.allocated == SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    // In the mode THREAD_LOCAL, other threads can make these calls, but they cannot end the capture.
    other.exchange = 0;
    REQUIRE(cuStreamBeginCapture_v2(a, THREAD_LOCAL));
    meanwhile(&other);
    CHECK(other.allocated == SUCCESS && other.ended == CAPTURE_WRONG_THREAD);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    // In the mode RELAXED, any thread can end the capture.
    REQUIRE(cuStreamBeginCapture_v2(a, RELAXED));
    meanwhile(&other);
    CHECK(other.allocated == SUCCESS && other.ended == SUCCESS && status_of(a) == NONE);
}

static void *let_go(void *flag) {
    usleep(50000);
    __atomic_store_n((unsigned *)flag, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

// Unloads a module while another thread captures in the mode THREAD_LOCAL. The call waits for the module's kernel, and
// the capture stays valid.
static void *unloads(void *context) {
    CUmodule module;
    CUfunction spin;
    CUdeviceptr at;
    unsigned *flag;
    pthread_t thread;
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuModuleLoadData(&module, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, module, "spin"));
    REQUIRE(cuMemHostAlloc((void **)&flag, 4, 0));
    *flag = 0;
    REQUIRE(cuMemHostGetDevicePointer_v2(&at, flag, 0));
    void *arguments[] = {&at};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, b, arguments, NULL));
    REQUIRE(pthread_create(&thread, NULL, let_go, flag));
    EXPECT(cuModuleUnload(module), SUCCESS);
    CHECK(__atomic_load_n(flag, __ATOMIC_SEQ_CST) == 1);
    pthread_join(thread, NULL);
    REQUIRE(cuMemFreeHost(flag));
    return NULL;
}

static void modules_go_meanwhile(CUcontext context) {
    pthread_t thread;
    CUgraph graph;
    write_word(x, 1);
    REQUIRE(cuStreamBeginCapture_v2(a, THREAD_LOCAL));
    EXPECT(launch_step(a, x, 1), SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, unloads, context));
    pthread_join(thread, NULL);
    CHECK(status_of(a) == ACTIVE);
    EXPECT(launch_step(a, x, 2), SUCCESS);
    EXPECT(cuStreamEndCapture(a, &graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
}

// Checks that a kernel node has the priority of the launch's attribute, or that of the stream if there is no attribute.
static void priorities(void) {
    enum { PRIORITY = 8 };
    struct {
        unsigned id, pad;
        AttributeValue value;
    } attribute = {PRIORITY, 0, {{0}}};
    struct {
        unsigned grid[3], block[3], shared;
        CUstream stream;
        void *attributes;
        unsigned count;
    } launch = {{1, 1, 1}, {1, 1, 1}, 0, NULL, &attribute, 0};
    CUresult cuLaunchKernelEx(const void *launch, CUfunction function, void **params, void **extra);
    CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
    static const int of_stream[] = {0, -3}, asked[] = {0, -2}, want[2][2] = {{0, -2}, {-3, -2}};
    unsigned operand = 1;
    void *params[] = {&x, &operand};
    for (unsigned i = 0; i < 4; ++i) {
        CUstream stream;
        CUgraph graph;
        CUgraphNode node;
        AttributeValue got;
        int priority;
        size_t count = 1;
        REQUIRE(cuStreamCreateWithPriority(&stream, 1, of_stream[i / 2]));
        launch.stream = stream;
        launch.count = i % 2;
        memcpy(attribute.value.bytes, &asked[i % 2], sizeof(int));
        EXPECT(cuStreamBeginCapture_v2(stream, RELAXED), SUCCESS);
        EXPECT(cuLaunchKernelEx(&launch, step_function, params, NULL), SUCCESS);
        REQUIRE(cuStreamEndCapture(stream, &graph));
        REQUIRE(cuGraphGetNodes(graph, &node, &count));
        EXPECT(cuGraphKernelNodeGetAttribute(node, PRIORITY, &got), SUCCESS);
        memcpy(&priority, got.bytes, sizeof priority);
        CHECK(priority == want[i / 2][i % 2]);
        EXPECT(cuGraphDestroy(graph), SUCCESS);
        EXPECT(cuStreamDestroy_v2(stream), SUCCESS);
    }
}

int main(void) {
    CUcontext context = start();
    REQUIRE(cuDeviceGet(&device, 0));
    load_steps();
    REQUIRE(cuStreamCreate(&a, 1));
    REQUIRE(cuStreamCreate(&b, 1));
    REQUIRE(cuStreamCreate(&c, 1));
    REQUIRE(cuEventCreate(&fork_event, 2));
    REQUIRE(cuEventCreate(&join_event, 2));
    REQUIRE(cuEventCreate(&third, 2));
    REQUIRE(cuMemAlloc_v2(&x, 4));
    all_operations();
    branches();
    forks_without_own_work();
    into_a_graph();
    rules_of_beginning();
    forbidden_calls();
    implicit_order();
    borders();
    priorities();
    threads(context);
    modules_go_meanwhile(context);
    // A reset ends all captures, so `cuMemAlloc` succeeds.
    REQUIRE(cuStreamBeginCapture_v2(a, GLOBAL));
    EXPECT(cuDevicePrimaryCtxReset_v2(device), SUCCESS);
    EXPECT(cuMemAlloc_v2(&x, 4), SUCCESS);
    return finish();
}
