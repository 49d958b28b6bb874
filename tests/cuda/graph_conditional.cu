// Tests conditional nodes: device code decides how often a body runs, and which body runs.
#include "common.h"

// One step of Newton's method for the square root. The loop ends when the value no longer changes, or after 100 steps.
extern "C" __global__ void newton(cudaGraphConditionalHandle handle, double *x, double a, int *steps) {
    double next = 0.5 * (*x + a / *x);
    ++*steps;
    cudaGraphSetConditional(handle, next != *x && *steps < 100);
    *x = next;
}

// The parity of a number of the Collatz sequence selects one of two kernels.
extern "C" __global__ void parity(cudaGraphConditionalHandle handle, const unsigned long long *value) {
    cudaGraphSetConditional(handle, unsigned(*value & 1));
}

extern "C" __global__ void odd(unsigned long long *value) { *value = 3 * *value + 1; }

extern "C" __global__ void even(unsigned long long *value) { *value /= 2; }

extern "C" __global__ void finished(cudaGraphConditionalHandle handle, const unsigned long long *value, int *steps) {
    ++*steps;
    cudaGraphSetConditional(handle, *value != 1);
}

template <class... A> static cudaGraphNode_t add_kernel(cudaGraph_t graph, const void *function,
                                                        std::vector<cudaGraphNode_t> before, A... arguments) {
    void *pointers[] = {&arguments...};
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = const_cast<void *>(function);
    params.kernel.gridDim = dim3(1);
    params.kernel.blockDim = dim3(1);
    params.kernel.kernelParams = pointers;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CUDA_OK(cudaGraphAddNode(&node, graph, before.data(), nullptr, before.size(), &params));
#else
    CUDA_OK(cudaGraphAddNode(&node, graph, before.data(), before.size(), &params));
#endif
    return node;
}

static cudaGraphNode_t add_conditional(cudaGraph_t graph, std::vector<cudaGraphNode_t> before,
                                       cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                                       unsigned size, std::vector<cudaGraph_t> &bodies) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CUDA_OK(cudaGraphAddNode(&node, graph, before.data(), nullptr, before.size(), &params));
#else
    CUDA_OK(cudaGraphAddNode(&node, graph, before.data(), before.size(), &params));
#endif
    bodies.assign(params.conditional.phGraph_out, params.conditional.phGraph_out + size);
    return node;
}

int main() {
    Verdict verdict("graph_conditional");
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    Buffer<int> steps(1);

    // A loop whose body is captured from a stream.
    const double a = 2;
    Buffer<double> x(std::vector<double>{a});
    cudaGraph_t graph;
    CUDA_OK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CUDA_OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    std::vector<cudaGraph_t> bodies;
    add_conditional(graph, {}, handle, cudaGraphCondTypeWhile, 1, bodies);
    CUDA_OK(cudaStreamBeginCaptureToGraph(stream, bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    newton<<<1, 1, 0, stream>>>(handle, x.ptr(), a, steps.ptr());
    LAUNCH_OK();
    CUDA_OK(cudaStreamEndCapture(stream, nullptr));
    cudaGraphExec_t exec;
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    double root = a;
    int root_steps = 0;
    for (double next;; root = next) {
        next = 0.5 * (root + a / root);
        ++root_steps;
        if (next == root || root_steps == 100)
            break;
    }
    for (int round = 0; round < 3; ++round) {
        x.put({a});
        steps.clear();
        CUDA_OK(cudaGraphLaunch(exec, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        verdict.equal("root", x.get()[0], root);
        verdict.equal("steps to the root", steps.get()[0], root_steps);
    }
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));

    // A loop whose body contains a switch node.
    Buffer<unsigned long long> value(1);
    cudaGraphConditionalHandle loop, choice;
    CUDA_OK(cudaGraphCreate(&graph, 0));
    CUDA_OK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
    add_conditional(graph, {}, loop, cudaGraphCondTypeWhile, 1, bodies);
    cudaGraph_t body = bodies[0];
    CUDA_OK(cudaGraphConditionalHandleCreate(&choice, body, 0, 0));
    cudaGraphNode_t ask = add_kernel(body, (const void *)parity, {}, choice, value.ptr());
    cudaGraphNode_t either = add_conditional(body, {ask}, choice, cudaGraphCondTypeSwitch, 2, bodies);
    add_kernel(bodies[0], (const void *)even, {}, value.ptr());
    add_kernel(bodies[1], (const void *)odd, {}, value.ptr());
    add_kernel(body, (const void *)finished, {either}, loop, value.ptr(), steps.ptr());
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    for (unsigned long long start : {6ull, 27ull, 97ull}) {
        value.put({start});
        steps.clear();
        CUDA_OK(cudaGraphLaunch(exec, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        int want = 0;
        for (unsigned long long at = start; at != 1; ++want)
            at = at % 2 ? 3 * at + 1 : at / 2;
        verdict.equal("length of the sequence", steps.get()[0], want);
        verdict.equal("its end", value.get()[0], 1ull);
    }
    verdict.status("a copy", cudaGraphClone(&body, graph), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
    return verdict.finish();
}
