// Tests graphs that are built by calls: kinds of nodes, child graphs, copies, updates, and disabled nodes.
#include "common.h"

extern "C" __global__ void add(float *out, const float *a, const float *b, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] * scale + b[i];
}

extern "C" __global__ void reverse(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[n - 1 - i];
}

static void CUDART_CB count_call(void *data) {
    ++*static_cast<int *>(data);
}

static cudaKernelNodeParams kernel_node(void *function, int n, void **arguments) {
    cudaKernelNodeParams params = {};
    params.func = function;
    params.gridDim = dim3((n + 127) / 128);
    params.blockDim = dim3(128);
    params.kernelParams = arguments;
    return params;
}

int main() {
    Verdict verdict("graph_nodes");
    const int n = 1000;
    Random random(7);
    std::vector<float> a(n), b(n), out(n), want(n);
    for (int i = 0; i < n; ++i) {
        a[i] = float(random.below(1000));
        b[i] = float(random.below(1000));
    }
    Buffer<float> da(n), db(n), sum(n), turned(n);
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    CUDA_OK(cudaGraphCreate(&graph, 0));

    cudaGraphNode_t copy_a, copy_b, add_node, reverse_node, host_node, back, fill;
    CUDA_OK(cudaGraphAddMemcpyNode1D(&copy_a, graph, nullptr, 0, da.ptr(), a.data(), n * sizeof(float),
                                     cudaMemcpyHostToDevice));
    CUDA_OK(cudaGraphAddMemcpyNode1D(&copy_b, graph, nullptr, 0, db.ptr(), b.data(), n * sizeof(float),
                                     cudaMemcpyHostToDevice));
    float scale = 2;
    float *sum_ptr = sum.ptr(), *a_ptr = da.ptr(), *b_ptr = db.ptr(), *turned_ptr = turned.ptr();
    int count = n;
    void *add_arguments[] = {&sum_ptr, &a_ptr, &b_ptr, &scale, &count};
    cudaKernelNodeParams add_params = kernel_node((void *)add, n, add_arguments);
    cudaGraphNode_t copies[] = {copy_a, copy_b};
    CUDA_OK(cudaGraphAddKernelNode(&add_node, graph, copies, 2, &add_params));
    void *reverse_arguments[] = {&turned_ptr, &sum_ptr, &count};
    cudaKernelNodeParams reverse_params = kernel_node((void *)reverse, n, reverse_arguments);
    CUDA_OK(cudaGraphAddKernelNode(&reverse_node, graph, &add_node, 1, &reverse_params));
    cudaMemsetParams zero = {};
    zero.dst = sum_ptr;
    zero.elementSize = 4;
    zero.width = 10;
    zero.height = 1;
    CUDA_OK(cudaGraphAddMemsetNode(&fill, graph, &reverse_node, 1, &zero));
    int calls = 0;
    cudaHostNodeParams host = {count_call, &calls};
    CUDA_OK(cudaGraphAddHostNode(&host_node, graph, &reverse_node, 1, &host));
    CUDA_OK(cudaGraphAddMemcpyNode1D(&back, graph, &reverse_node, 1, out.data(), turned_ptr, n * sizeof(float),
                                     cudaMemcpyDeviceToHost));
    size_t nodes = 0, edges = 0;
    CUDA_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    verdict.equal("nodes", nodes, size_t(7));
#if CUDART_VERSION >= 13000
    CUDA_OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
#else
    CUDA_OK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
#endif
    verdict.equal("edges", edges, size_t(6));

    cudaGraphExec_t exec;
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    auto check = [&](const char *what, float factor) {
        for (int i = 0; i < n; ++i)
            want[i] = a[n - 1 - i] * factor + b[n - 1 - i];
        verdict.equal(what, out, want);
    };
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    check("first launch", 2);
    verdict.equal("host calls", calls, 1);
    std::vector<float> sums = sum.get();
    verdict.equal("filled", sums[9], 0.0f);
    verdict.equal("not filled", sums[10], a[10] * 2 + b[10]);

    // Sets new arguments in the executable graph only.
    scale = 3;
    CUDA_OK(cudaGraphExecKernelNodeSetParams(exec, add_node, &add_params));
    a[5] = 77;
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    check("new arguments", 3);

    // Queries the parameters of the node in the graph, changes them, and updates the executable graph.
    cudaKernelNodeParams told = {};
    CUDA_OK(cudaGraphKernelNodeGetParams(add_node, &told));
    verdict.equal("told scale", *(float *)told.kernelParams[3], 2.0f);
    verdict.holds("told function", told.func == (void *)add);
    verdict.equal("told block", told.blockDim.x, 128u);
    scale = 5;
    CUDA_OK(cudaGraphKernelNodeSetParams(add_node, &add_params));
    cudaGraphExecUpdateResultInfo info;
    CUDA_OK(cudaGraphExecUpdate(exec, graph, &info));
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    check("updated", 5);

    // Disables a node.
    CUDA_OK(cudaGraphNodeSetEnabled(exec, add_node, 0));
    CUDA_OK(cudaMemset(sum_ptr, 0, n * sizeof(float)));
    CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.equal("left out", out, std::vector<float>(n, 0.0f));
    CUDA_OK(cudaGraphNodeSetEnabled(exec, add_node, 1));

    // Another graph contains this graph twice, as child nodes. A copy of that graph is launched.
    cudaGraph_t outer, clone;
    cudaGraphNode_t first, second, found;
    CUDA_OK(cudaGraphCreate(&outer, 0));
    CUDA_OK(cudaGraphAddChildGraphNode(&first, outer, nullptr, 0, graph));
    CUDA_OK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, graph));
    CUDA_OK(cudaGraphClone(&clone, outer));
    CUDA_OK(cudaGraphNodeFindInClone(&found, second, clone));
    cudaGraphNodeType type;
    CUDA_OK(cudaGraphNodeGetType(found, &type));
    verdict.holds("a child", type == cudaGraphNodeTypeGraph);
    cudaGraphExec_t outer_exec;
    CUDA_OK(cudaGraphInstantiate(&outer_exec, clone, 0));
    calls = 0;
    CUDA_OK(cudaGraphLaunch(outer_exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    check("children", 5);
    verdict.equal("host calls of children", calls, 2);

    // Changes that are errors.
    cudaGraph_t other;
    CUDA_OK(cudaGraphCreate(&other, 0));
    cudaGraphNode_t lone;
    CUDA_OK(cudaGraphAddEmptyNode(&lone, other, nullptr, 0));
    verdict.status("another shape", cudaGraphExecUpdate(exec, other, &info), cudaErrorGraphExecUpdateFailure);
    verdict.holds("the reason", info.result == cudaGraphExecUpdateErrorTopologyChanged);
    (void)cudaGetLastError();
    verdict.status("a node waits for itself",
#if CUDART_VERSION >= 13000
                   cudaGraphAddDependencies(other, &lone, &lone, nullptr, 1),
#else
                   cudaGraphAddDependencies(other, &lone, &lone, 1),
#endif
                   cudaErrorInvalidValue);
    (void)cudaGetLastError();

    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphExecDestroy(outer_exec));
    for (cudaGraph_t each : {graph, outer, clone, other})
        CUDA_OK(cudaGraphDestroy(each));
    return verdict.finish();
}
