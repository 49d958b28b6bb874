// Tests spin locks for which the lanes of one warp compete. Each lane must be able to continue while other lanes wait,
// whichever branch the compiler places first (independent thread scheduling).
#include "common.h"

// The classic form: a lane acquires, uses and releases the lock inside one loop.
extern "C" __global__ void locked_in_loop(int *lock, int *counter, int *order) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            volatile int *shared = counter;
            int ticket = *shared;
            order[ticket] = threadIdx.x;
            *shared = ticket + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// This form hangs on hardware that runs lanes in lock step: lanes wait in a loop, and the lane with the lock waits for
// them behind the loop.
extern "C" __global__ void locked_behind_loop(int *lock, int *counter) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *reinterpret_cast<volatile int *>(counter) += threadIdx.x + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// A lane waits for a value that another lane of the same warp stores.
extern "C" __global__ void lane_waits_for_lane(volatile int *flag, int *out) {
    if (threadIdx.x == 0) {
        while (*flag == 0) {
        }
        out[0] = *flag + 1;
    } else if (threadIdx.x == 1) {
        *flag = 41;
        out[1] = 7;
    }
}

// All threads of the block acquire and release a lock in shared memory with exchanges.
extern "C" __global__ void locked_in_shared(int *out) {
    __shared__ int lock, sum;
    if (threadIdx.x == 0) {
        lock = 0;
        sum = 0;
    }
    __syncthreads();
    while (atomicExch(&lock, 1) != 0)
        __nanosleep(20);
    __threadfence_block();
    *reinterpret_cast<volatile int *>(&sum) += threadIdx.x;
    __threadfence_block();
    atomicExch(&lock, 0);
    __syncthreads();
    if (threadIdx.x == 0)
        *out = sum;
}

int main() {
    Verdict verdict("warp_spin_lock");
    {
        Buffer<int> lock(1), counter(1), order(32);
        lock.clear();
        counter.clear();
        locked_in_loop<<<1, 32>>>(lock.ptr(), counter.ptr(), order.ptr());
        LAUNCH_OK();
        verdict.equal("entries", counter.get()[0], 32);
        std::vector<int> seen(32, 0), once(32, 1);
        for (int lane : order.get())
            if (lane >= 0 && lane < 32)
                ++seen[lane];
        verdict.equal("each lane once", seen, once);
    }
    {
        Buffer<int> lock(1), counter(1);
        lock.clear();
        counter.clear();
        locked_behind_loop<<<2, 48>>>(lock.ptr(), counter.ptr());
        LAUNCH_OK();
        verdict.equal("sum behind loop", counter.get()[0], 2 * 48 * 49 / 2);
    }
    {
        Buffer<int> flag(1), out(2);
        flag.clear();
        lane_waits_for_lane<<<1, 2>>>(flag.ptr(), out.ptr());
        LAUNCH_OK();
        verdict.equal("lane to lane", out.get(), std::vector<int>{42, 7});
    }
    {
        Buffer<int> out(1);
        locked_in_shared<<<1, 96>>>(out.ptr());
        LAUNCH_OK();
        verdict.equal("shared lock", out.get()[0], 95 * 96 / 2);
    }
    return verdict.finish();
}
