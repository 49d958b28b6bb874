// Tests the order that streams and events guarantee: within a stream, between streams by events, and with the legacy
// default stream. Also tests queries of events.
#include "common.h"

// Computes x = x * 3 + step, so the result depends on the order of the steps.
extern "C" __global__ void apply_step(unsigned *x, unsigned step) { *x = *x * 3u + step; }

// Does the same after a delay.
extern "C" __global__ void apply_step_slowly(unsigned *x, unsigned step, unsigned turns) {
    unsigned value = step;
    for (unsigned i = 0; i < turns; ++i)
        value = value * 1664525u + 1013904223u;
    *x = *x * 3u + step + (value == 0x12345u ? 1u : 0u);
}

static unsigned expected(std::initializer_list<unsigned> steps) {
    unsigned x = 0;
    for (unsigned step : steps)
        x = x * 3u + step;
    return x;
}

int main() {
    const unsigned turns = 20000;
    Verdict verdict("stream_order");
    Buffer<unsigned> x(1);
    cudaStream_t a, b, blocking;
    CUDA_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreate(&blocking));
    cudaEvent_t first, second, third;
    CUDA_OK(cudaEventCreate(&first));
    CUDA_OK(cudaEventCreate(&second));
    CUDA_OK(cudaEventCreateWithFlags(&third, cudaEventDisableTiming));

    // Copies between kernels of one stream.
    unsigned *pinned = nullptr;
    CUDA_OK(cudaMallocHost((void **)&pinned, 2 * sizeof(unsigned)));
    pinned[0] = 5;
    x.clear();
    CUDA_OK(cudaDeviceSynchronize());
    apply_step_slowly<<<1, 1, 0, a>>>(x.ptr(), 1, turns);
    CUDA_OK(cudaMemcpyAsync(pinned + 1, x.ptr(), sizeof(unsigned), cudaMemcpyDeviceToHost, a));
    CUDA_OK(cudaMemcpyAsync(x.ptr(), pinned, sizeof(unsigned), cudaMemcpyHostToDevice, a));
    apply_step<<<1, 1, 0, a>>>(x.ptr(), 2);
    CUDA_OK(cudaStreamSynchronize(a));
    verdict.equal("copy in the middle", pinned[1], 1u);
    verdict.equal("one stream", x.get()[0], 5u * 3u + 2u);

    // Work of two streams, ordered by events: a, then b, then a again.
    x.clear();
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaEventRecord(first, a));
    apply_step_slowly<<<1, 1, 0, a>>>(x.ptr(), 1, turns);
    CUDA_OK(cudaEventRecord(second, a));
    CUDA_OK(cudaStreamWaitEvent(b, second, 0));
    apply_step_slowly<<<1, 1, 0, b>>>(x.ptr(), 2, turns);
    CUDA_OK(cudaEventRecord(third, b));
    CUDA_OK(cudaStreamWaitEvent(a, third, 0));
    apply_step<<<1, 1, 0, a>>>(x.ptr(), 3);
    CUDA_OK(cudaStreamSynchronize(a));
    verdict.equal("across streams", x.get()[0], expected({1, 2, 3}));
    CUDA_OK(cudaEventSynchronize(third));
    verdict.status("event query", cudaEventQuery(second), cudaSuccess);
    float milliseconds = -1.0f;
    CUDA_OK(cudaEventElapsedTime(&milliseconds, first, second));
    verdict.holds("time does not run backwards", milliseconds >= 0.0f);
    verdict.status("time of an event without", cudaEventElapsedTime(&milliseconds, first, third),
                   cudaErrorInvalidResourceHandle);
    cudaGetLastError();

    // A wait refers to the last earlier record of the event. A later record has no effect on it.
    x.clear();
    CUDA_OK(cudaDeviceSynchronize());
    apply_step_slowly<<<1, 1, 0, a>>>(x.ptr(), 1, turns);
    CUDA_OK(cudaEventRecord(second, a));
    CUDA_OK(cudaStreamWaitEvent(b, second, 0));
    CUDA_OK(cudaEventRecord(second, b));
    apply_step<<<1, 1, 0, b>>>(x.ptr(), 2);
    CUDA_OK(cudaStreamSynchronize(b));
    verdict.equal("record again", x.get()[0], expected({1, 2}));

    // The legacy default stream waits for blocking streams, and blocking streams wait for it.
    x.clear();
    CUDA_OK(cudaDeviceSynchronize());
    apply_step_slowly<<<1, 1, 0, blocking>>>(x.ptr(), 1, turns);
    apply_step_slowly<<<1, 1>>>(x.ptr(), 2, turns);
    apply_step<<<1, 1, 0, blocking>>>(x.ptr(), 3);
    LAUNCH_OK();
    CUDA_OK(cudaDeviceSynchronize());
    verdict.equal("default stream", x.get()[0], expected({1, 2, 3}));

    // A destroyed stream completes its work.
    x.clear();
    CUDA_OK(cudaDeviceSynchronize());
    apply_step_slowly<<<1, 1, 0, blocking>>>(x.ptr(), 4, turns);
    CUDA_OK(cudaStreamDestroy(blocking));
    CUDA_OK(cudaDeviceSynchronize());
    verdict.equal("destroyed stream", x.get()[0], expected({4}));

    CUDA_OK(cudaStreamDestroy(a));
    CUDA_OK(cudaStreamDestroy(b));
    CUDA_OK(cudaEventDestroy(first));
    CUDA_OK(cudaEventDestroy(second));
    CUDA_OK(cudaEventDestroy(third));
    CUDA_OK(cudaFreeHost(pinned));
    return verdict.finish();
}
