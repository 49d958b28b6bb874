// A kernel shares memory with the host. It writes that it runs and then waits for a word from the host. Launches must
// therefore be asynchronous, and stores must be visible while the kernel runs.
#include "common.h"

#include <chrono>
#include <thread>

struct Mailbox {
    int running, go, answer, rounds;
};

extern "C" __global__ void poll_host(volatile Mailbox *box, int *out) {
    box->running = 1;
    __threadfence_system();
    int turns = 0;
    while (box->go == 0)
        ++turns;
    __threadfence_system();
    out[0] = box->go * 2;
    // In each round the kernel writes a number and waits for the host's answer.
    for (int round = 1; round <= 5; ++round) {
        box->rounds = round;
        __threadfence_system();
        while (box->answer != round * 10) {
        }
    }
    out[1] = turns >= 0 ? box->answer : -1;
}

// Waits at most 30 seconds until the condition holds.
template <class Condition> static bool wait_until(Condition condition) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

int main() {
    volatile Mailbox *box = nullptr;
    Mailbox *device_box = nullptr;
    CUDA_OK(cudaHostAlloc((void **)&box, sizeof(Mailbox), cudaHostAllocMapped));
    std::memset((void *)box, 0, sizeof(Mailbox));
    CUDA_OK(cudaHostGetDevicePointer((void **)&device_box, (void *)box, 0));
    Buffer<int> out(2);
    poll_host<<<1, 1>>>(device_box, out.ptr());
    LAUNCH_OK();

    Verdict verdict("poll_host");
    verdict.holds("the kernel says that it runs", wait_until([&] { return box->running == 1; }));
    verdict.status("query", cudaStreamQuery(nullptr), cudaErrorNotReady);
    box->go = 21;
    for (int round = 1; round <= 5; ++round) {
        verdict.holds("the kernel goes on", wait_until([&] { return box->rounds == round; }));
        box->answer = round * 10;
    }
    verdict.equal("answers", out.get(), std::vector<int>{42, 50});
    CUDA_OK(cudaFreeHost((void *)box));
    return verdict.finish();
}
