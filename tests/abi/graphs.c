// Tests graphs that are built by calls: their structure, kinds of nodes, instantiation, launches, changes and copies.
#include "graphs.h"
#include <unistd.h>

static CUcontext context;
static CUstream stream;

static void add_seven(void *data) {
    *(unsigned *)data += 7;
}

static void add_nine(void *data) {
    *(unsigned *)data += 9;
}

static void structure(void) {
    CUgraph graph;
    CUgraphNode a, b, c, nodes[8], from[8], to[8];
    size_t count;
    unsigned number = 99;
    REQUIRE(cuGraphCreate(&graph, 0));
    EXPECT(cuGraphCreate(&graph, 1), INVALID_VALUE);
    EXPECT(cuGraphCreate(NULL, 0), INVALID_VALUE);
    REQUIRE(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    REQUIRE(cuGraphAddEmptyNode(&b, graph, &a, 1));
    REQUIRE(cuGraphAddEmptyNode(&c, graph, (CUgraphNode[]){a, b}, 2));
    EXPECT(cuGraphAddEmptyNode(&c, graph, (CUgraphNode[]){a, a}, 2), INVALID_VALUE);
    EXPECT(cuGraphAddEmptyNode(&c, graph, NULL, 2), INVALID_VALUE);
    EXPECT(cuGraphAddEmptyNode(&c, (CUgraph)a, NULL, 0), INVALID_VALUE);
    EXPECT(cuGraphNodeGetType(b, &number), SUCCESS);
    CHECK(number == NODE_EMPTY);
    EXPECT(cuGraphNodeGetType(b, NULL), INVALID_VALUE);
    EXPECT(cuGraphNodeGetLocalId(c, &number), SUCCESS);
    CHECK(number == 2);
    CUgraph around = NULL;
    EXPECT(cuGraphNodeGetContainingGraph(c, &around), SUCCESS);
    CHECK(around == graph);

    EXPECT(cuGraphGetNodes(graph, NULL, &count), SUCCESS);
    CHECK(count == 3);
    count = 8;
    memset(nodes, 0xff, sizeof nodes);
    EXPECT(cuGraphGetNodes(graph, nodes, &count), SUCCESS);
    CHECK(count == 3 && nodes[0] == a && nodes[1] == b && nodes[2] == c && !nodes[3] && !nodes[7]);
    count = 2;
    EXPECT(cuGraphGetNodes(graph, nodes, &count), SUCCESS);
    CHECK(count == 2);
    EXPECT(cuGraphGetNodes(graph, nodes, NULL), INVALID_VALUE);
    count = 8;
    EXPECT(cuGraphGetRootNodes(graph, nodes, &count), SUCCESS);
    CHECK(count == 1 && nodes[0] == a);
    count = 8;
    EXPECT(cuGraphGetEdges(graph, from, to, &count), SUCCESS);
    CHECK(count == 3 && from[0] == a && to[0] == b && from[1] == a && to[1] == c && from[2] == b && to[2] == c);
    EXPECT(cuGraphGetEdges(graph, from, NULL, &count), INVALID_VALUE);
    count = 8;
    EXPECT(cuGraphNodeGetDependencies(c, nodes, &count), SUCCESS);
    CHECK(count == 2 && nodes[0] == a && nodes[1] == b);
    count = 8;
    EXPECT(cuGraphNodeGetDependentNodes(a, nodes, &count), SUCCESS);
    CHECK(count == 2 && nodes[0] == b && nodes[1] == c);

    // A call adds all edges or none. It adds no edge twice and no edge from a node to itself.
    EXPECT(cuGraphAddDependencies(graph, &a, &b, 1), INVALID_VALUE);
    EXPECT(cuGraphAddDependencies(graph, &a, &a, 1), INVALID_VALUE);
    EXPECT(cuGraphRemoveDependencies(graph, &b, &a, 1), INVALID_VALUE);
    EXPECT(cuGraphRemoveDependencies(graph, &a, &c, 1), SUCCESS);
    EXPECT(cuGraphAddDependencies(graph, (CUgraphNode[]){a, b}, (CUgraphNode[]){c, c}, 2), INVALID_VALUE);
    EXPECT(cuGraphGetEdges(graph, NULL, NULL, &count), SUCCESS);
    CHECK(count == 2);
    EdgeData strange = {.type = 1, .from_port = 1};
    EXPECT(cuGraphAddDependencies_v2(graph, &a, &c, &strange, 1), INVALID_VALUE);
    EXPECT(cuGraphAddDependencies(graph, NULL, NULL, 0), SUCCESS);

    // Instantiation detects a cycle and returns one of its nodes.
    CUgraphExec exec = NULL;
    CUgraphNode culprit = NULL;
    char log[200] = "x";
    EXPECT(cuGraphAddDependencies(graph, &c, &a, 1), SUCCESS);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0), INVALID_VALUE);
    EXPECT(cuGraphInstantiate_v2(&exec, graph, &culprit, log, sizeof log), INVALID_VALUE);
    CHECK(culprit == a || culprit == b || culprit == c);
    CHECK(strstr(log, "cycle") != NULL);
    InstantiateParams how = {0};
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &how), INVALID_VALUE);
    CHECK(how.result == 2 && how.node != NULL);
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, NULL), INVALID_VALUE);
    EXPECT(cuGraphRemoveDependencies(graph, &c, &a, 1), SUCCESS);
    how = (InstantiateParams){.flags = 2, .stream = stream};
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &how), SUCCESS);
    CHECK(how.result == 0 && how.node == NULL && exec != NULL);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    uint64_t flags = 77;
    EXPECT(cuGraphExecGetFlags(exec, &flags), SUCCESS);
    CHECK(flags == 0);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), INVALID_VALUE);
    EXPECT(cuGraphLaunch(exec, stream), INVALID_VALUE);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 16), INVALID_VALUE);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 4), NOT_SUPPORTED);

    EXPECT(cuGraphDestroyNode(b), SUCCESS);
    EXPECT(cuGraphDestroyNode(b), INVALID_VALUE);
    EXPECT(cuGraphNodeGetType(b, &number), INVALID_VALUE);
    count = 8;
    EXPECT(cuGraphNodeGetDependencies(c, nodes, &count), SUCCESS);
    CHECK(count == 0);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuGraphDestroy(graph), INVALID_VALUE);
    EXPECT(cuGraphNodeGetType(a, &number), INVALID_VALUE);
}

// The graph consists of a fill, a copy, two kernels whose order matters, a host function, and a copy back.
static void every_kind(void) {
    CUgraph graph;
    CUgraphNode fill, copy, first, second, host, back;
    CUgraphExec exec;
    CUdeviceptr x, y;
    unsigned word = 5, out = 0, called = 0;
    REQUIRE(cuMemAlloc_v2(&x, 64));
    REQUIRE(cuMemAlloc_v2(&y, 64));
    REQUIRE(cuGraphCreate(&graph, 0));
    FillParams zero = {.dst = y, .value = 0, .element = 4, .width = 16, .height = 1};
    REQUIRE(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &zero, context));
    CopyParams in = copy_of(NULL, x, &word, 0, 4);
    REQUIRE(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &in, context));
    first = add_step(graph, x, 1, &copy, 1);
    second = add_step(graph, x, 2, &first, 1);
    HostParams call = {add_seven, &called};
    REQUIRE(cuGraphAddHostNode(&host, graph, (CUgraphNode[]){second, fill}, 2, &call));
    CopyParams out_params = copy_of(&out, 0, NULL, x, 4);
    REQUIRE(cuGraphAddMemcpyNode(&back, graph, &host, 1, &out_params, context));

    // Queries return the parameters of the nodes. A kernel node contains a copy of the arguments.
    KernelParams kernel;
    EXPECT(cuGraphKernelNodeGetParams_v2(second, &kernel), SUCCESS);
    CHECK(kernel.func == step_function && kernel.grid[0] == 1 && kernel.extra == NULL);
    CHECK(*(CUdeviceptr *)kernel.params[0] == x && *(unsigned *)kernel.params[1] == 2);
    EXPECT(cuGraphKernelNodeGetParams_v2(fill, &kernel), INVALID_VALUE);
    EXPECT(cuGraphKernelNodeGetParams_v2(second, NULL), INVALID_VALUE);
    FillParams told;
    EXPECT(cuGraphMemsetNodeGetParams(fill, &told), SUCCESS);
    CHECK(told.dst == y && told.width == 16 && told.element == 4);
    HostParams asked;
    EXPECT(cuGraphHostNodeGetParams(host, &asked), SUCCESS);
    CHECK(asked.function == add_seven && asked.data == &called);
    CopyParams copied;
    EXPECT(cuGraphMemcpyNodeGetParams(copy, &copied), SUCCESS);
    CHECK(memcmp(&copied, &in, sizeof in) == 0);
    NodeParams any;
    EXPECT(cuGraphNodeGetParams(second, &any), SUCCESS);
    CHECK(any.kind == NODE_KERNEL && *(unsigned *)any.kernel.params[1] == 2);
    EXPECT(cuGraphNodeGetParams(copy, &any), SUCCESS);
    CHECK(any.kind == NODE_MEMCPY && any.copy.copy.width == 4 && any.copy.ctx == context);

    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned round = 1; round <= 3; ++round) {
        word = 5 * round;
        EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
        EXPECT(cuStreamSynchronize(stream), SUCCESS);
        CHECK(out == (5 * round * 3 + 1) * 3 + 2);
        CHECK(called == 7 * round);
    }

    // Sets new parameters in the executable graph only.
    unsigned eight = 8;
    void *params[] = {&x, &eight};
    kernel = (KernelParams){.func = step_function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
    EXPECT(cuGraphExecKernelNodeSetParams_v2(exec, second, &kernel), SUCCESS);
    EXPECT(cuGraphExecKernelNodeSetParams_v2(exec, fill, &kernel), INVALID_VALUE);
    EXPECT(cuGraphExecKernelNodeSetParams_v2(exec, second, NULL), INVALID_VALUE);
    HostParams other = {add_nine, &called};
    EXPECT(cuGraphExecHostNodeSetParams(exec, host, &other), SUCCESS);
    unsigned hundred = 100;
    CopyParams from_hundred = copy_of(NULL, x, &hundred, 0, 4);
    EXPECT(cuGraphExecMemcpyNodeSetParams(exec, copy, &from_hundred, context), SUCCESS);
    FillParams ones = {.dst = y, .value = 1, .element = 4, .width = 8, .height = 1};
    EXPECT(cuGraphExecMemsetNodeSetParams(exec, fill, &ones, context), SUCCESS);
    FillParams rows = {.dst = y, .value = 1, .element = 4, .width = 2, .height = 2, .pitch = 16};
    EXPECT(cuGraphExecMemsetNodeSetParams(exec, fill, &rows, context), INVALID_VALUE);
    called = 0;
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(out == (100 * 3 + 1) * 3 + 8 && called == 9);
    unsigned filled[16];
    REQUIRE(cuMemcpyDtoH_v2(filled, y, sizeof filled));
    CHECK(filled[0] == 1 && filled[7] == 1 && filled[8] == 0);

    // Disables a node and enables it again.
    unsigned enabled = 7;
    EXPECT(cuGraphNodeGetEnabled(exec, first, &enabled), SUCCESS);
    CHECK(enabled == 1);
    EXPECT(cuGraphNodeSetEnabled(exec, first, 0), SUCCESS);
    EXPECT(cuGraphNodeSetEnabled(exec, host, 0), INVALID_VALUE);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(out == 100 * 3 + 8);
    EXPECT(cuGraphNodeGetEnabled(exec, first, &enabled), SUCCESS);
    CHECK(enabled == 0);
    EXPECT(cuGraphNodeSetEnabled(exec, first, 1), SUCCESS);

    // The graph itself has not changed: it can be changed and instantiated again.
    CUgraphExec again;
    unsigned four = 4;
    void *four_params[] = {&x, &four};
    kernel.params = four_params;
    EXPECT(cuGraphKernelNodeSetParams_v2(first, &kernel), SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&again, graph, 0));
    word = 1;
    EXPECT(cuGraphLaunch(again, stream), SUCCESS);
    EXPECT(cuGraphExecDestroy(again), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(out == (1 * 3 + 4) * 3 + 2);
    // Launches of one executable graph run one after another, also in different streams.
    CUstream streams[4];
    called = 0;
    for (int i = 0; i < 4; ++i)
        REQUIRE(cuStreamCreate(&streams[i], 1));
    for (int i = 0; i < 200; ++i)
        EXPECT(cuGraphLaunch(exec, streams[i % 4]), SUCCESS);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    CHECK(called == 9 * 200);
    for (int i = 0; i < 4; ++i)
        EXPECT(cuStreamDestroy_v2(streams[i]), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    REQUIRE(cuMemFree_v2(x));
    REQUIRE(cuMemFree_v2(y));
}

static void copies_and_children(void) {
    CUgraph inner, outer, clone, found_graph;
    CUgraphNode one, two, child, behind, found;
    CUgraphExec exec;
    CUdeviceptr x;
    REQUIRE(cuMemAlloc_v2(&x, 4));
    REQUIRE(cuGraphCreate(&inner, 0));
    one = add_step(inner, x, 1, NULL, 0);
    two = add_step(inner, x, 2, &one, 1);
    REQUIRE(cuGraphCreate(&outer, 0));
    CUgraphNode before = add_step(outer, x, 3, NULL, 0);
    REQUIRE(cuGraphAddChildGraphNode(&child, outer, &before, 1, inner));
    behind = add_step(outer, x, 4, &child, 1);
    // The child node contains a copy of the graph, so later changes of the original have no effect on the child.
    EXPECT(cuGraphDestroyNode(two), SUCCESS);
    EXPECT(cuGraphChildGraphNodeGetGraph(child, &found_graph), SUCCESS);
    CHECK(found_graph != inner);
    EXPECT(cuGraphDestroy(found_graph), INVALID_VALUE);
    size_t count = 0;
    EXPECT(cuGraphGetNodes(found_graph, NULL, &count), SUCCESS);
    CHECK(count == 2);
    EXPECT(cuGraphNodeFindInClone(&found, one, found_graph), SUCCESS);
    CHECK(found != one);
    EXPECT(cuGraphClone(&clone, outer), SUCCESS);
    EXPECT(cuGraphNodeFindInClone(&found, behind, clone), SUCCESS);
    CUgraph around;
    EXPECT(cuGraphNodeGetContainingGraph(found, &around), SUCCESS);
    CHECK(around == clone);
    EXPECT(cuGraphNodeFindInClone(&found, one, clone), INVALID_VALUE);
    EXPECT(cuGraphDestroy(outer), SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, clone, 0));
    write_word(x, 1);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == (((1 * 3 + 3) * 3 + 1) * 3 + 2) * 3 + 4);
    // Replaces the child graph by another graph of the same shape.
    CUgraphNode child_copy;
    count = 1;
    CUgraphNode nodes[3];
    count = 3;
    EXPECT(cuGraphGetNodes(clone, nodes, &count), SUCCESS);
    child_copy = nodes[1];
    CUgraph shape;
    REQUIRE(cuGraphCreate(&shape, 0));
    CUgraphNode five = add_step(shape, x, 5, NULL, 0);
    EXPECT(cuGraphExecChildGraphNodeSetParams(exec, child_copy, shape), INVALID_VALUE);
    add_step(shape, x, 6, &five, 1);
    EXPECT(cuGraphExecChildGraphNodeSetParams(exec, child_copy, shape), SUCCESS);
    write_word(x, 1);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == (((1 * 3 + 3) * 3 + 5) * 3 + 6) * 3 + 4);
    // A node owns a graph that is moved into it.
    CUgraph owner;
    NodeParams move = {.kind = NODE_GRAPH, .graph = {shape, 1}};
    REQUIRE(cuGraphCreate(&owner, 0));
    EXPECT(cuGraphAddNode(&child, owner, NULL, 0, &move), SUCCESS);
    EXPECT(cuGraphDestroy(shape), INVALID_VALUE);
    EXPECT(cuGraphGetNodes(shape, NULL, &count), SUCCESS);
    CHECK(count == 2);
    EXPECT(cuGraphDestroy(owner), SUCCESS);
    EXPECT(cuGraphGetNodes(shape, NULL, &count), INVALID_VALUE);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(clone), SUCCESS);
    EXPECT(cuGraphDestroy(inner), SUCCESS);
    REQUIRE(cuMemFree_v2(x));
}

static CUgraph two_steps(CUdeviceptr x, unsigned first, unsigned second) {
    CUgraph graph;
    REQUIRE(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_step(graph, x, first, NULL, 0);
    add_step(graph, x, second, &node, 1);
    return graph;
}

static void updates(void) {
    CUdeviceptr x;
    CUgraphExec exec;
    UpdateInfo info;
    unsigned result;
    CUgraphNode node;
    REQUIRE(cuMemAlloc_v2(&x, 4));
    CUgraph graph = two_steps(x, 1, 2), same = two_steps(x, 5, 6), other;
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(cuGraphExecUpdate_v2(exec, same, &info), SUCCESS);
    CHECK(info.result == 0 && info.node == NULL);
    EXPECT(cuGraphExecUpdate_v2(exec, same, NULL), INVALID_VALUE);
    write_word(x, 0);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == 5 * 3 + 6);
    // This graph has another number of nodes.
    REQUIRE(cuGraphCreate(&other, 0));
    CUgraphNode lone = add_step(other, x, 1, NULL, 0);
    EXPECT(cuGraphExecUpdate_v2(exec, other, &info), GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == 2 && info.node == NULL);
    // This graph has the same number of nodes, but no edge.
    CUgraphNode loose = add_step(other, x, 1, NULL, 0);
    EXPECT(cuGraphExecUpdate_v2(exec, other, &info), GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == 2 && (info.node == lone || info.node == loose));
    // A node of this graph has another kind.
    EXPECT(cuGraphDestroyNode(loose), SUCCESS);
    CUgraphNode empty;
    REQUIRE(cuGraphAddEmptyNode(&empty, other, &lone, 1));
    EXPECT(cuGraphExecUpdate(exec, other, &node, &result), GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(result == 3 && node == empty);
    EXPECT(cuGraphDestroy(other), SUCCESS);
    // A kernel of this graph is cooperative.
    other = two_steps(x, 7, 8);
    CUgraphNode nodes[2];
    size_t count = 2;
    EXPECT(cuGraphGetNodes(other, nodes, &count), SUCCESS);
    AttributeValue value = {{1}}, got;
    EXPECT(cuGraphKernelNodeSetAttribute(nodes[1], 2, &value), SUCCESS);
    EXPECT(cuGraphKernelNodeGetAttribute(nodes[1], 2, &got), SUCCESS);
    CHECK(got.bytes[0] == 1 && got.bytes[1] == 0);
    EXPECT(cuGraphKernelNodeGetAttribute(nodes[1], 999, &got), INVALID_VALUE);
    EXPECT(cuGraphExecUpdate_v2(exec, other, &info), GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == 8 && info.node == nodes[1]);
    EXPECT(cuGraphKernelNodeCopyAttributes(nodes[1], nodes[0]), SUCCESS);
    EXPECT(cuGraphExecUpdate_v2(exec, other, &info), SUCCESS);
    // The executable graph has the parameters of the update that succeeded.
    write_word(x, 0);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    CHECK(read_word(x) == 7 * 3 + 8);
    EXPECT(cuGraphExecUpdate_v2(exec, (CUgraph)nodes[0], &info), INVALID_VALUE);
    CHECK(info.result == 1);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuGraphDestroy(same), SUCCESS);
    EXPECT(cuGraphDestroy(other), SUCCESS);
    REQUIRE(cuMemFree_v2(x));
}

static void events(void) {
    CUgraph graph;
    CUgraphNode wait, record;
    CUgraphExec exec;
    CUevent in, out, told;
    CUdeviceptr x, flag;
    unsigned *flag_host;
    CUstream other;
    REQUIRE(cuStreamCreate(&other, 1));
    REQUIRE(cuMemHostAlloc((void **)&flag_host, 4, 2));
    REQUIRE(cuMemHostGetDevicePointer_v2(&flag, flag_host, 0));
    *(volatile unsigned *)flag_host = 0;
    REQUIRE(cuMemAlloc_v2(&x, 4));
    write_word(x, 1);
    REQUIRE(cuEventCreate(&in, 0));
    REQUIRE(cuEventCreate(&out, 0));
    REQUIRE(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, in));
    CUgraphNode step = add_step(graph, x, 1, &wait, 1);
    REQUIRE(cuGraphAddEventRecordNode(&record, graph, &step, 1, out));
    EXPECT(cuGraphEventRecordNodeGetEvent(record, &told), SUCCESS);
    CHECK(told == out);
    EXPECT(cuGraphEventWaitNodeGetEvent(record, &told), INVALID_VALUE);
    EXPECT(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, NULL), INVALID_VALUE);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    // The graph waits for an event of the stream `other`, which waits for the host.
    EXPECT(cuStreamWaitValue32_v2(other, flag, 1, 1), SUCCESS);
    EXPECT(cuEventRecord(in, other), SUCCESS);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuEventQuery(out), NOT_READY);
    EXPECT(cuStreamQuery(stream), NOT_READY);
    *(volatile unsigned *)flag_host = 1;
    EXPECT(cuEventSynchronize(out), SUCCESS);
    CHECK(read_word(x) == 4);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuStreamSynchronize(other), SUCCESS);
    EXPECT(cuStreamDestroy_v2(other), SUCCESS);
    REQUIRE(cuMemFree_v2(x));
    REQUIRE(cuMemFreeHost(flag_host));
}

static volatile int destroyed;

static void destroy(void *data) {
    destroyed += *(int *)data;
}

static void wait_for(int number) {
    for (int i = 0; i < 5000 && destroyed != number; ++i)
        usleep(1000);
    CHECK(destroyed == number);
}

static void user_objects(void) {
    static int one = 1;
    CUuserObject object;
    CUgraph graph, clone;
    CUgraphExec exec;
    EXPECT(cuUserObjectCreate(&object, &one, destroy, 1, 0), INVALID_VALUE);
    EXPECT(cuUserObjectCreate(&object, &one, NULL, 1, 1), INVALID_VALUE);
    EXPECT(cuUserObjectCreate(&object, &one, destroy, 0, 1), INVALID_VALUE);
    EXPECT(cuUserObjectCreate(NULL, &one, destroy, 1, 1), INVALID_VALUE);
    REQUIRE(cuUserObjectCreate(&object, &one, destroy, 1, 1));
    EXPECT(cuUserObjectRetain(object, 2), SUCCESS);
    EXPECT(cuUserObjectRelease(object, 2), SUCCESS);
    EXPECT(cuUserObjectRelease(object, 0), INVALID_VALUE);
    REQUIRE(cuGraphCreate(&graph, 0));
    EXPECT(cuGraphRetainUserObject(graph, object, 1, 2), INVALID_VALUE);
    EXPECT(cuGraphRetainUserObject(graph, object, 1, 1), SUCCESS);
    EXPECT(cuGraphReleaseUserObject(graph, object, 5), INVALID_VALUE);
    CUgraphNode node;
    REQUIRE(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    REQUIRE(cuGraphClone(&clone, graph));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, clone, 0));
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    EXPECT(cuGraphDestroy(clone), SUCCESS);
    usleep(20000);
    CHECK(destroyed == 0);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    wait_for(1);
    EXPECT(cuUserObjectRetain(object, 1), INVALID_VALUE);
    // The program releases its three references, which are the last ones.
    REQUIRE(cuUserObjectCreate(&object, &one, destroy, 3, 1));
    EXPECT(cuUserObjectRelease(object, 3), SUCCESS);
    wait_for(2);
}

static volatile int let_go;

static void hold(void *data) {
    (void)data;
    while (!let_go)
        usleep(100);
}

// Checks that an updated executable graph holds the user objects of the new graph, and that an object of the old graph
// is destroyed when no launch needs it.
static void updates_replace_user_objects(void) {
    static int one = 1;
    CUgraph graphs[2], wider;
    CUgraphNode node;
    CUgraphExec exec;
    UpdateInfo info;
    HostParams host = {.function = hold};
    destroyed = 0;
    for (int i = 0; i < 2; ++i) {
        CUuserObject object;
        REQUIRE(cuUserObjectCreate(&object, &one, destroy, 1, 1));
        REQUIRE(cuGraphCreate(&graphs[i], 0));
        REQUIRE(cuGraphAddHostNode(&node, graphs[i], NULL, 0, &host));
        REQUIRE(cuGraphRetainUserObject(graphs[i], object, 1, 1));
    }
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graphs[0], 0));
    EXPECT(cuGraphDestroy(graphs[0]), SUCCESS);
    EXPECT(cuGraphLaunch(exec, stream), SUCCESS);
    REQUIRE(cuGraphCreate(&wider, 0));
    EXPECT(cuGraphExecUpdate_v2(exec, wider, &info), GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(cuGraphExecUpdate_v2(exec, graphs[1], &info), SUCCESS);
    EXPECT(cuGraphDestroy(graphs[1]), SUCCESS);
    EXPECT(cuGraphDestroy(wider), SUCCESS);
    usleep(20000);
    CHECK(destroyed == 0); // The pending launch still holds the first object.
    let_go = 1;
    EXPECT(cuStreamSynchronize(stream), SUCCESS);
    wait_for(1);
    usleep(20000);
    CHECK(destroyed == 1);
    EXPECT(cuGraphExecDestroy(exec), SUCCESS);
    wait_for(2);
}

static void pictures(const char *path) {
    CUdeviceptr x;
    REQUIRE(cuMemAlloc_v2(&x, 4));
    CUgraph graph = two_steps(x, 1, 2);
    EXPECT(cuGraphDebugDotPrint(graph, path, 1), SUCCESS);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    char text[4096] = "";
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    CHECK(strncmp(text, "digraph", 7) == 0 && strstr(text, "step") && strstr(text, "->"));
    EXPECT(cuGraphDebugDotPrint(graph, "/there/is/no/such/folder/x.dot", 0), 304);
    EXPECT(cuGraphDebugDotPrint(graph, NULL, 0), INVALID_VALUE);
    EXPECT(cuGraphDestroy(graph), SUCCESS);
    unlink(path);
    REQUIRE(cuMemFree_v2(x));
}

int main(int count, char **arguments) {
    context = start();
    load_steps();
    REQUIRE(cuStreamCreate(&stream, 1));
    structure();
    every_kind();
    copies_and_children();
    updates();
    events();
    user_objects();
    updates_replace_user_objects();
    pictures(count > 1 ? arguments[1] : "graph.dot");
    return finish();
}
