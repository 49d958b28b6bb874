// Declarations of graph functions for several programs, and a kernel whose result depends on the order of its launches.
#pragma once

#include "abi.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;

enum {
    ILLEGAL_STATE = 401,
    LOSSY_QUERY = 402,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
    GRAPH_EXEC_UPDATE_FAILURE = 910,
};

enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET, NODE_HOST, NODE_GRAPH, NODE_EMPTY, NODE_WAIT_EVENT, NODE_RECORD,
       NODE_ALLOC = 10, NODE_FREE, NODE_MEM_OPS, NODE_CONDITIONAL };

typedef struct {
    CUfunction func;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    CUkernel kern;
    CUcontext ctx;
} KernelParams;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} FillParams;

typedef struct {
    size_t x, y, z, lod;
    unsigned kind;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} CopySide;

typedef struct {
    CopySide src, dst;
    size_t width, height, depth;
} CopyParams;

typedef struct {
    void (*function)(void *);
    void *data;
} HostParams;

typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} EdgeData;

typedef struct {
    int type;
    int handle_types;
    struct {
        int type, id;
    } location;
    void *security;
    size_t max_size;
    unsigned char rest[56];
} PoolProps;

typedef struct {
    PoolProps props;
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr pointer;
} AllocParams;

typedef union {
    unsigned operation;
    struct {
        unsigned operation;
        CUdeviceptr address;
        uint64_t value;
        unsigned flags;
        CUdeviceptr alias;
    } value;
    uint64_t pad[6];
} MemOp;

typedef struct {
    CUcontext ctx;
    unsigned count;
    MemOp *ops;
    unsigned flags;
} MemOpsParams;

typedef struct {
    unsigned kind;
    int reserved0[3];
    union {
        KernelParams kernel;
        struct {
            int flags, reserved;
            CUcontext ctx;
            CopyParams copy;
        } copy;
        struct {
            FillParams fill;
            CUcontext ctx;
        } fill;
        struct {
            HostParams host;
            unsigned sync_mode;
            CUcontext ctx;
        } host;
        struct {
            CUgraph graph;
            unsigned ownership;
        } graph;
        struct {
            CUevent event;
            CUcontext ctx;
        } event;
        AllocParams alloc;
        CUdeviceptr freed;
        MemOpsParams mem_ops;
        struct {
            unsigned long long handle;
            unsigned kind, size;
            CUgraph *graphs;
            CUcontext ctx;
        } conditional;
        char bytes[232];
    };
    long long reserved2;
} NodeParams;

typedef struct {
    unsigned result;
    CUgraphNode node, from;
} UpdateInfo;

typedef struct {
    uint64_t flags;
    CUstream stream;
    CUgraphNode node;
    unsigned result;
} InstantiateParams;

typedef struct {
    char bytes[64];
} AttributeValue;

CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                 const KernelParams *params);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, KernelParams *params);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const KernelParams *params);
CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                              const CopyParams *params, CUcontext ctx);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CopyParams *params);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CopyParams *params);
CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                              const FillParams *params, CUcontext ctx);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, FillParams *params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const FillParams *params);
CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                            const HostParams *params);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, HostParams *params);
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                  CUgraph child);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph);
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count);
CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                   CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                 CUevent event);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event);
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event);
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                AllocParams *params);
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                               CUdeviceptr pointer);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, AllocParams *params);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer);
CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                  const MemOpsParams *params);
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, MemOpsParams *params);
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                        NodeParams *params);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const EdgeData *data,
                           size_t count, NodeParams *params);
CUresult cuGraphNodeGetParams(CUgraphNode node, NodeParams *params);
CUresult cuGraphNodeSetParams(CUgraphNode node, NodeParams *params);
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, NodeParams *params);
CUresult cuGraphConditionalHandleCreate(unsigned long long *handle, CUgraph graph, CUcontext ctx, unsigned value,
                                        unsigned flags);
CUresult cuGraphNodeGetType(CUgraphNode node, unsigned *type);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph);
CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned *id);
CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id);
CUresult cuGraphGetId(CUgraph graph, unsigned *id);
CUresult cuGraphExecGetId(CUgraphExec exec, unsigned *id);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, EdgeData *data, size_t *count);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const EdgeData *data, size_t count);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, InstantiateParams *params);
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t room);
CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const KernelParams *params);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CopyParams *params, CUcontext ctx);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const FillParams *params, CUcontext ctx);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const HostParams *params);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, UpdateInfo *info);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, unsigned *result);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, AttributeValue *value);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute, const AttributeValue *value);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags);
CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, void (*destroy)(void *), unsigned count,
                            unsigned flags);
CUresult cuUserObjectRetain(CUuserObject object, unsigned count);
CUresult cuUserObjectRelease(CUuserObject object, unsigned count);
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count);
CUresult cuDeviceGraphMemTrim(CUdevice device);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before, const EdgeData *data,
                                     size_t count, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id);
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count);
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, const EdgeData **data, size_t *count);
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *), void *data,
                             unsigned flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags);
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, MemOp *ops, unsigned flags);

// step: *x = *x * 3 + s. countdown: decrements *x and sets the conditional handle h to the result. choose: sets the
// conditional handle h to *x.
static const char STEPS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry step(.param .u64 x, .param .u32 s)\n"
    "{\n"
    "    .reg .b32 %r<4>; .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [x]; ld.param.u32 %r1, [s];\n"
    "    ld.global.u32 %r2, [%rd]; mad.lo.u32 %r3, %r2, 3, %r1; st.global.u32 [%rd], %r3;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry countdown(.param .u64 h, .param .u64 x)\n"
    "{\n"
    "    .reg .b32 %r<3>; .reg .b64 %rd<3>;\n"
    "    ld.param.u64 %rd1, [h]; ld.param.u64 %rd2, [x];\n"
    "    ld.global.u32 %r1, [%rd2]; sub.u32 %r1, %r1, 1; st.global.u32 [%rd2], %r1;\n"
    "    {\n"
    "    .param .b64 p0; st.param.b64 [p0], %rd1;\n"
    "    .param .b32 p1; st.param.b32 [p1], %r1;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1);\n"
    "    }\n"
    "    ret;\n"
    "}\n"
    ".visible .entry choose(.param .u64 h, .param .u64 x)\n"
    "{\n"
    "    .reg .b32 %r<3>; .reg .b64 %rd<3>;\n"
    "    ld.param.u64 %rd1, [h]; ld.param.u64 %rd2, [x]; ld.global.u32 %r1, [%rd2];\n"
    "    {\n"
    "    .param .b64 p0; st.param.b64 [p0], %rd1;\n"
    "    .param .b32 p1; st.param.b32 [p1], %r1;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1);\n"
    "    }\n"
    "    ret;\n"
    "}\n";

static CUfunction step_function;

static inline CUmodule load_steps(void) {
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, STEPS));
    REQUIRE(cuModuleGetFunction(&step_function, module, "step"));
    return module;
}

// Adds a kernel node that runs `step` with `x` and `s` and depends on the `count` nodes in `before`.
static inline CUgraphNode add_step(CUgraph graph, CUdeviceptr x, unsigned s, const CUgraphNode *before,
                                   size_t count) {
    CUgraphNode node = NULL;
    void *params[] = {&x, &s};
    KernelParams kernel = {.func = step_function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
    REQUIRE(cuGraphAddKernelNode_v2(&node, graph, before, count, &kernel));
    return node;
}

static inline CUresult launch_step(CUstream stream, CUdeviceptr x, unsigned s) {
    void *params[] = {&x, &s};
    return cuLaunchKernel(step_function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static inline unsigned read_word(CUdeviceptr x) {
    unsigned value = 0xdeadbeef;
    REQUIRE(cuMemcpyDtoH_v2(&value, x, 4));
    return value;
}

static inline void write_word(CUdeviceptr x, unsigned value) {
    REQUIRE(cuMemcpyHtoD_v2(x, &value, 4));
}

static inline CopyParams copy_of(void *to, CUdeviceptr to_device, const void *from, CUdeviceptr from_device,
                                 size_t bytes) {
    CopyParams copy = {.width = bytes, .height = 1, .depth = 1};
    copy.src.kind = from ? 1 : 2;
    copy.src.host = from;
    copy.src.device = from_device;
    copy.dst.kind = to ? 1 : 2;
    copy.dst.host = to;
    copy.dst.device = to_device;
    return copy;
}
