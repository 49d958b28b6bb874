// Captures streams into graphs: a pipeline with a branch that joins the main stream again. The program launches the
// graph several times with new data and computes the expected values on the CPU.
#include "common.h"

extern "C" __global__ void smooth(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float left = in[i > 0 ? i - 1 : 0], right = in[i < n - 1 ? i + 1 : n - 1];
    out[i] = 0.25f * left + 0.5f * in[i] + 0.25f * right;
}

extern "C" __global__ void combine(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] - b[i];
}

extern "C" __global__ void total(float *out, const float *in, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (int(threadIdx.x) < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = part[0];
}

static std::vector<float> smoothed(const std::vector<float> &in) {
    int n = int(in.size());
    std::vector<float> out(n);
    for (int i = 0; i < n; ++i) {
        float left = in[i > 0 ? i - 1 : 0], right = in[i < n - 1 ? i + 1 : n - 1];
        out[i] = std::fma(0.25f, right, std::fma(0.25f, left, 0.5f * in[i]));
    }
    return out;
}

int main() {
    Verdict verdict("graph_capture");
    const int n = 4096, blocks = n / 128;
    std::vector<float> input(n), result(n);
    float sum = 0;
    Buffer<float> in(n), once(n), twice(n), difference(n), sums(1);
    cudaStream_t main_stream, branch;
    CUDA_OK(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
    cudaEvent_t fork_event, join_event;
    CUDA_OK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));

    CUDA_OK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaMemcpyAsync(in.ptr(), input.data(), n * sizeof(float), cudaMemcpyHostToDevice, main_stream));
    smooth<<<blocks, 128, 0, main_stream>>>(once.ptr(), in.ptr(), n);
    LAUNCH_OK();
    CUDA_OK(cudaEventRecord(fork_event, main_stream));
    CUDA_OK(cudaStreamWaitEvent(branch, fork_event, 0));
    smooth<<<blocks, 128, 0, branch>>>(twice.ptr(), once.ptr(), n);
    total<<<1, 256, 0, main_stream>>>(sums.ptr(), once.ptr(), n);
    CUDA_OK(cudaMemcpyAsync(&sum, sums.ptr(), sizeof sum, cudaMemcpyDeviceToHost, main_stream));
    CUDA_OK(cudaEventRecord(join_event, branch));
    CUDA_OK(cudaStreamWaitEvent(main_stream, join_event, 0));
    combine<<<blocks, 128, 0, main_stream>>>(difference.ptr(), once.ptr(), twice.ptr(), n);
    CUDA_OK(cudaMemcpyAsync(result.data(), difference.ptr(), n * sizeof(float), cudaMemcpyDeviceToHost,
                            main_stream));
    cudaStreamCaptureStatus status;
    CUDA_OK(cudaStreamIsCapturing(branch, &status));
    verdict.holds("the branch captures", status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    CUDA_OK(cudaStreamEndCapture(main_stream, &graph));
    cudaGraphExec_t exec;
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));

    Random random(3);
    for (int round = 0; round < 5; ++round) {
        for (float &value : input)
            value = float(random.below(256));
        CUDA_OK(cudaGraphLaunch(exec, main_stream));
        CUDA_OK(cudaStreamSynchronize(main_stream));
        std::vector<float> first = smoothed(input), second = smoothed(first), want(n);
        double want_sum = 0;
        for (int i = 0; i < n; ++i) {
            want[i] = first[i] - second[i];
            want_sum += first[i];
        }
        verdict.close("difference", result, want, 1e-4);
        verdict.close("sum", std::vector<float>{sum}, std::vector<float>{float(want_sum)}, 1e-5);
    }

    // As training loops do, each round captures the work again and updates the executable graph.
    Buffer<float> x(1);
    for (int round = 0; round < 3; ++round) {
        cudaGraph_t again;
        CUDA_OK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeThreadLocal));
        CUDA_OK(cudaMemcpyAsync(in.ptr(), input.data(), n * sizeof(float), cudaMemcpyHostToDevice, main_stream));
        for (int i = 0; i < 3; ++i)
            smooth<<<blocks, 128, 0, main_stream>>>(i % 2 ? in.ptr() : once.ptr(), i % 2 ? once.ptr() : in.ptr(), n);
        total<<<1, 256, 0, main_stream>>>(round == 1 ? x.ptr() : sums.ptr(), once.ptr(), n);
        CUDA_OK(cudaStreamEndCapture(main_stream, &again));
        static cudaGraphExec_t loop = nullptr;
        if (!loop) {
            CUDA_OK(cudaGraphInstantiate(&loop, again, 0));
        } else {
            cudaGraphExecUpdateResultInfo info;
            CUDA_OK(cudaGraphExecUpdate(loop, again, &info));
        }
        CUDA_OK(cudaGraphDestroy(again));
        CUDA_OK(cudaGraphLaunch(loop, main_stream));
        CUDA_OK(cudaStreamSynchronize(main_stream));
        std::vector<float> want = smoothed(smoothed(smoothed(input)));
        double want_sum = 0;
        for (float value : want)
            want_sum += value;
        std::vector<float> got = (round == 1 ? x : sums).get();
        verdict.close("captured again", got, std::vector<float>{float(want_sum)}, 1e-5);
    }

    // An allocation is an error during this capture and invalidates it.
    CUDA_OK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
    void *pointer = nullptr;
    verdict.status("allocation", cudaMalloc(&pointer, 16), cudaErrorStreamCaptureUnsupported);
    (void)cudaGetLastError();
    verdict.status("the end", cudaStreamEndCapture(main_stream, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    return verdict.finish();
}
