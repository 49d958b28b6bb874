// Checks that faults of copies and fills are CUDA errors if the calling thread blocks all signals.
#define _GNU_SOURCE
#include "abi.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long Handle;

typedef struct {
    int type, handle_types;
    struct {
        int type, id;
    } location;
    void *security;
    unsigned char rest[8];
} Properties;

enum { REGION = 2 << 20, FILE_BYTES = 1 << 20 };

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);

static CUdeviceptr device, closed;
static void *wild;
static char *truncated;
static char buffer[4096];

static CUresult from_wild(void) { return cuMemcpyHtoD_v2(device, wild, 16); }
static CUresult to_wild(void) { return cuMemcpyDtoH_v2(wild, device, 4096); }
static CUresult from_closed(void) { return cuMemcpyDtoH_v2(buffer, closed, 16); }
static CUresult fill_closed(void) { return cuMemsetD8_v2(closed, 1, 16), cuCtxSynchronize(); }
static CUresult between(void) { return cuMemcpyDtoD_v2(device, closed, 16), cuCtxSynchronize(); }
static CUresult from_truncated(void) { return cuMemcpyHtoD_v2(device, truncated, 4096); }
static CUresult fill_truncated(void) {
    return cuMemsetD8_v2((CUdeviceptr)truncated, 1, 16), cuCtxSynchronize();
}

static void up(void) {
    Handle handle;
    Properties plain = {.type = 1, .location = {1, 0}};
    start();
    REQUIRE(cuMemAlloc_v2(&device, FILE_BYTES));
    REQUIRE(cuMemCreate(&handle, REGION, &plain, 0));
    REQUIRE(cuMemAddressReserve(&closed, REGION, 0, 0, 0));
    // Without cuMemSetAccess, the mapping is inaccessible.
    REQUIRE(cuMemMap(closed, REGION, 0, handle, 0));
    REQUIRE(cuMemHostRegister_v2(truncated, FILE_BYTES, 0));
}

// Returns the result of a call that fails, and resets the device.
static CUresult failure(CUresult (*call)(void)) {
    CUresult result = call();
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    up();
    return result;
}

int main(void) {
    static CUresult (*const calls[])(void) = {
        from_wild, to_wild, from_closed, fill_closed, between, from_truncated, fill_truncated,
    };
    wild = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("truncated", 0);
    CHECK(file >= 0 && ftruncate(file, FILE_BYTES) == 0);
    truncated = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    up();
    CHECK(ftruncate(file, 0) == 0);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; ++i) {
        sigset_t all, previous, now;
        CUresult open = failure(calls[i]);
        CHECK(open == INVALID_VALUE || open == ILLEGAL_ADDRESS);
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &previous);
        EXPECT(failure(calls[i]), open);
        sigprocmask(SIG_SETMASK, &previous, &now);
        CHECK(sigismember(&now, SIGSEGV) == 1 && sigismember(&now, SIGBUS) == 1);
        CHECK(sigismember(&previous, SIGSEGV) == 0 && sigismember(&previous, SIGBUS) == 0);
        // Only one of the two signals is blocked.
        sigemptyset(&all);
        sigaddset(&all, SIGBUS);
        sigprocmask(SIG_BLOCK, &all, NULL);
        EXPECT(failure(calls[i]), open);
        sigprocmask(SIG_SETMASK, &previous, &now);
        CHECK(sigismember(&now, SIGSEGV) == 0 && sigismember(&now, SIGBUS) == 1);
    }
    return finish();
}
