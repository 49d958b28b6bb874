// A ticket lock for many blocks: blocks get the lock in the order of their tickets, and the other blocks spin.
#include "common.h"

struct TicketLock {
    unsigned next, serving;
};

extern "C" __global__ void ticket_lock(TicketLock *lock, int *sum, unsigned *served, int rounds) {
    if (threadIdx.x != 0)
        return;
    for (int round = 0; round < rounds; ++round) {
        unsigned mine = atomicAdd(&lock->next, 1u);
        while (*reinterpret_cast<volatile unsigned *>(&lock->serving) != mine)
            __nanosleep(100);
        __threadfence();
        // The lock protects this plain read and write.
        volatile int *guarded = sum;
        *guarded = *guarded * 3 % 1000003 + int(mine);
        served[mine] = mine;
        __threadfence();
        atomicExch(&lock->serving, mine + 1);
    }
}

int main() {
    const int blocks = 20, rounds = 5;
    int want = 0;
    std::vector<unsigned> tickets(blocks * rounds);
    for (int i = 0; i < blocks * rounds; ++i) {
        want = want * 3 % 1000003 + i;
        tickets[i] = i;
    }
    Buffer<TicketLock> lock(1);
    Buffer<int> sum(1);
    Buffer<unsigned> served(blocks * rounds);
    lock.clear();
    sum.clear();
    ticket_lock<<<blocks, 32>>>(lock.ptr(), sum.ptr(), served.ptr(), rounds);
    LAUNCH_OK();

    Verdict verdict("ticket_lock");
    verdict.equal("sum", sum.get()[0], want);
    verdict.equal("served", served.get(), tickets);
    return verdict.finish();
}
