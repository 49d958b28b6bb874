// Tests processes with low limits on addresses, threads, files or stack. Calls succeed or return an error. No call
// hangs, and no signal ends the process.
#define _GNU_SOURCE
#include "abi.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void limit(int resource, rlim_t value) {
    struct rlimit both = {value, value};
    if (setrlimit(resource, &both)) {
        perror("setrlimit");
        _exit(2);
    }
}

// Runs a kernel on an array of `bytes` bytes. Returns the first error of a call.
static CUresult scaled(size_t bytes) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    CUresult result = cuInit(0);
    if (!result) result = cuDeviceGet(&device, 0);
    if (!result) result = cuDevicePrimaryCtxRetain(&context, device);
    if (!result) result = cuCtxSetCurrent(context);
    if (!result) result = cuModuleLoadData(&module, KERNELS);
    if (!result) result = cuModuleGetFunction(&function, module, "scale");
    if (!result) result = cuMemAlloc_v2(&memory, bytes);
    if (result) return result;
    float factor = 3, value = 5;
    unsigned n = bytes / 4;
    void *params[] = {&memory, &factor, &n};
    result = cuMemsetD32_v2(memory, 0x3f800000, n);
    if (!result) result = cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
    if (!result) result = cuCtxSynchronize();
    if (!result) result = cuMemcpyDtoH_v2(&value, memory + bytes - 4, 4);
    if (!result) CHECK(value == 3);
    return result;
}

static void works(void) { EXPECT(scaled(1 << 20), SUCCESS); }

// Writes to which spaces generic addresses of a global, a constant and a shared variable belong: bit 0 for global, bit 1
// for shared, bit 2 for constant, bit 3 for local memory.
static const char SPACES[] =
    ".version 7.8\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .global .align 4 .b32 global[16];\n"
    ".visible .const .align 4 .b32 constant[16];\n"
    ".func (.reg .b32 %s) spaces(.reg .b64 %p)\n"
    "{\n"
    "    .reg .pred %q<4>; .reg .b32 %r<4>;\n"
    "    isspacep.global %q0, %p; isspacep.shared %q1, %p; isspacep.const %q2, %p; isspacep.local %q3, %p;\n"
    "    selp.u32 %r0, 1, 0, %q0; selp.u32 %r1, 2, 0, %q1; selp.u32 %r2, 4, 0, %q2; selp.u32 %r3, 8, 0, %q3;\n"
    "    add.u32 %r0, %r0, %r1; add.u32 %r2, %r2, %r3; add.u32 %s, %r0, %r2;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry where(.param .u64 out)\n"
    "{\n"
    "    .reg .b64 %o, %p; .reg .b32 %s; .shared .align 4 .b32 tile[16]; .local .align 4 .b32 own[16];\n"
    "    ld.param.u64 %o, [out];\n"
    "    mov.u64 %p, global; cvta.global.u64 %p, %p; call (%s), spaces, (%p); st.global.u32 [%o], %s;\n"
    "    mov.u64 %p, constant; cvta.const.u64 %p, %p; call (%s), spaces, (%p); st.global.u32 [%o+4], %s;\n"
    "    mov.u64 %p, tile; cvta.shared.u64 %p, %p; call (%s), spaces, (%p); st.global.u32 [%o+8], %s;\n"
    "    mov.u64 %p, own; cvta.local.u64 %p, %p; call (%s), spaces, (%p); st.global.u32 [%o+12], %s;\n"
    "    ret;\n"
    "}\n";

static void spaces(void) {
    CUmodule module;
    CUfunction where;
    CUdeviceptr out;
    unsigned found[4];
    REQUIRE(cuModuleLoadData(&module, SPACES));
    REQUIRE(cuModuleGetFunction(&where, module, "where"));
    REQUIRE(cuMemAlloc_v2(&out, sizeof found));
    void *params[] = {&out};
    REQUIRE(cuLaunchKernel(where, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuMemcpyDtoH_v2(found, out, sizeof found));
    CHECK(found[0] == 1 && found[1] == 4 && found[2] == 2 && found[3] == 8);
    REQUIRE(cuMemFree_v2(out));
    REQUIRE(cuModuleUnload(module));
}

// Checks that half of the reported free memory (at most 512 MiB) is usable in a process with this limit on addresses.
static void few_addresses(rlim_t bytes) {
    size_t free, total;
    limit(RLIMIT_AS, bytes);
    works();
    spaces();
    REQUIRE(cuMemGetInfo_v2(&free, &total));
    CHECK(free <= total && total < bytes);
    CHECK(total >= (bytes < 5ul << 30 ? bytes : 5ul << 30) / 16);
    size_t half = free / 2 & ~4095ul;
    EXPECT(scaled(half < 1ul << 29 ? half : 1ul << 29), SUCCESS);
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, bytes), OUT_OF_MEMORY);
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    works();
}

static void gigabyte(void) { few_addresses(1ul << 30); }
static void two_gigabytes(void) { few_addresses(2ul << 30); }
static void five_gigabytes(void) { few_addresses(5ul << 30); }
static void fifty_gigabytes(void) { few_addresses(50ul << 30); }

// With too few addresses, calls may return these errors.
static void hardly_any(void) {
    limit(RLIMIT_AS, 150ul << 20);
    CUresult result = scaled(1 << 20);
    CHECK(result == SUCCESS || result == OUT_OF_MEMORY || result == 304 || result == NOT_INITIALIZED);
}

// Runs as an unprivileged user, whom the limit affects. All threads of this user count.
static CUresult with_threads(rlim_t count) {
    if (getuid() == 0 && setresuid(61234, 61234, 61234)) return SUCCESS;
    limit(RLIMIT_NPROC, count);
    return scaled(1 << 20);
}

static void no_threads(void) {
    CUresult result = with_threads(1);
    CHECK(result == OUT_OF_MEMORY || result == 304);
}

static void one_thread(void) { EXPECT(with_threads(3), SUCCESS); }

static void few_files(void) {
    limit(RLIMIT_NOFILE, 10);
    works();
}

static void no_files(void) {
    limit(RLIMIT_NOFILE, 3);
    works();
}

static void small_stack(void) {
    limit(RLIMIT_STACK, 64 << 10);
    works();
}

static void no_locked_memory(void) {
    limit(RLIMIT_MEMLOCK, 0);
    void *pinned;
    works();
    EXPECT(cuMemHostAlloc(&pinned, 1 << 20, 0), SUCCESS);
}

static void no_file_sizes(void) {
    limit(RLIMIT_FSIZE, 0);
    works();
}

// Each thread of `deep` has 64 KiB of local memory.
static const char DEEP[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry deep(.param .u64 out) {\n"
    ".local .align 4 .b8 space[65536]; .reg .b64 %p<4>; .reg .b32 %r<4>;\n"
    "ld.param.u64 %p0, [out]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 16383; mul.wide.u32 %p1, %r1, 4;\n"
    "mov.u64 %p2, space; add.u64 %p1, %p2, %p1; st.local.u32 [%p2], %r0; st.local.u32 [%p1], %r0;\n"
    "ld.global.u32 %r1, [%p0]; and.b32 %r1, %r1, 16383; mul.wide.u32 %p1, %r1, 4; add.u64 %p1, %p2, %p1;\n"
    "ld.local.u32 %r2, [%p1]; st.global.u32 [%p0], %r2; ret; }";

// Returns the number of bytes of private writable memory that the process uses.
static rlim_t private_memory(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) == 1);
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

// A launch returns an error if there is no memory for the local memory of its blocks. The error is not sticky.
// If `rest` is not 0, the process gets only `rest` more bytes of private memory after the first launch.
static void no_local_memory(rlim_t rest) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction deep;
    CUdeviceptr memory;
    unsigned value = 1;
    void *params[] = {&memory};
    REQUIRE(cuInit(0));
    REQUIRE(cuDeviceGet(&device, 0));
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuModuleLoadData(&module, DEEP));
    REQUIRE(cuModuleGetFunction(&deep, module, "deep"));
    REQUIRE(cuMemAlloc_v2(&memory, 4));
    REQUIRE(cuMemsetD32_v2(memory, 0, 1));
    // The first launch starts the workers and compiles the kernel.
    REQUIRE(cuLaunchKernel(deep, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuCtxSynchronize());
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_DATA, &limit) == 0);
    rlim_t before = limit.rlim_cur;
    if (rest) limit.rlim_cur = private_memory() + rest;
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    EXPECT(cuLaunchKernel(deep, 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL), LAUNCH_OUT_OF_RESOURCES);
    EXPECT(cuCtxSynchronize(), SUCCESS);
    REQUIRE(cuLaunchKernel(deep, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    REQUIRE(cuMemcpyDtoH_v2(&value, memory, 4));
    CHECK(value == 0);
    limit.rlim_cur = before;
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

// Two thirds of the memory that a block of 1,024 threads needs.
static void little_data(void) { no_local_memory(42ul << 20); }

// The windows for local memory are narrow.
static void narrow_windows(void) {
    limit(RLIMIT_AS, 1ul << 30);
    no_local_memory(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"1 GiB of addresses", gigabyte},
    {"2 GiB of addresses", two_gigabytes},
    {"5 GiB of addresses", five_gigabytes},
    {"50 GiB of addresses", fifty_gigabytes},
    {"150 MiB of addresses", hardly_any},
    {"no threads", no_threads},
    {"few threads", one_thread},
    {"10 files", few_files},
    {"no files", no_files},
    {"64 KiB of stack", small_stack},
    {"no locked memory", no_locked_memory},
    {"no file sizes", no_file_sizes},
    {"little private memory", little_data},
    {"narrow windows", narrow_windows},
};

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; ++i) {
        if (count > 1 && strcmp(arguments[1], cases[i].name)) continue;
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            alarm(60);
            cases[i].run();
            _exit(failures ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) {
            printf("%s: status %#x\n", cases[i].name, status);
            ++failures;
        }
    }
    return finish();
}
