// Measures the cost of guard pages and fault handling: runs the same kernels in two variants. The guarded variant uses
// device memory, in which inaccessible pages follow every array, and the library's signal handlers. The plain variant
// uses one mapping with contiguous arrays and the system's default actions for signals.
//
// Without an argument, each kernel runs once in both variants, and the program compares the results. With a number of
// rounds, the variants alternate, and the program prints the shortest times. The second argument selects the variant
// whose memory is written first (0: guarded, 1: plain). The choice of physical pages for a variant changes the times
// more than guards do, so `cargo xtask guards` alternates between 0 and 1.
//
// Both variants include the entry into generated code (about 5 ns for a range of blocks) and the windows of shared
// memory, so the program does not measure the cost of these.
#include "abi.h"

#include <signal.h>
#include <sys/mman.h>
#include <time.h>

static const char TEXT[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    // y[i] = 0.5 * x[i] + y[i]
    ".visible .entry stream(.param .u64 x, .param .u64 y, .param .u32 mask) {\n"
    " .reg .b32 %i, %n, %t; .reg .b64 %x, %y; .reg .f32 %a, %b;\n"
    " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;\n"
    " ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mad.wide.u32 %x, %i, 4, %x; mad.wide.u32 %y, %i, 4, %y;\n"
    " ld.global.f32 %a, [%x]; ld.global.f32 %b, [%y]; fma.rn.f32 %b, %a, 0f3F000000, %b; st.global.f32 [%y], %b;\n"
    " ret; }\n"
    // y[i] = x[(i * 0x9e3779b1) & mask] + 1
    ".visible .entry gather(.param .u64 x, .param .u64 y, .param .u32 mask) {\n"
    " .reg .b32 %i, %n, %t; .reg .b64 %x, %y; .reg .f32 %a;\n"
    " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;\n"
    " ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %n, [mask];\n"
    " mad.wide.u32 %y, %i, 4, %y; mul.lo.u32 %t, %i, 0x9E3779B1; and.b32 %t, %t, %n;\n"
    " mad.wide.u32 %x, %t, 4, %x; ld.global.f32 %a, [%x]; add.rn.f32 %a, %a, 0f3F800000; st.global.f32 [%y], %a;\n"
    " ret; }\n"
    // Each block reads an array of mask + 1 elements, whose address is x[block]. y contains the sum of each thread.
    ".visible .entry tables(.param .u64 x, .param .u64 y, .param .u32 mask) {\n"
    " .reg .pred %p; .reg .b32 %i, %n, %t, %m; .reg .b64 %x, %y, %at; .reg .f32 %a, %s;\n"
    " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;\n"
    " ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %m, [mask];\n"
    " mad.wide.u32 %x, %i, 8, %x; ld.global.u64 %x, [%x];\n"
    " mad.lo.u32 %i, %i, %n, %t; mad.wide.u32 %y, %i, 4, %y; mov.f32 %s, 0f00000000;\n"
    "again: mad.wide.u32 %at, %t, 4, %x; ld.global.f32 %a, [%at]; add.rn.f32 %s, %s, %a;\n"
    " add.u32 %t, %t, %n; setp.le.u32 %p, %t, %m; @%p bra again;\n"
    " st.global.f32 [%y], %s; ret; }\n";

enum { ARRAYS = 256, ELEMENTS = 25 << 10, LARGE = 8 << 20, SIGNALS = 4 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

// The addresses of the arrays of one variant.
typedef struct {
    CUdeviceptr x, y, pointers, arrays[ARRAYS];
    // Arrays that are as far apart as in the guarded variant. In the guarded variant these are the arrays above.
    CUdeviceptr pointers_apart, arrays_apart[ARRAYS];
} Memory;

typedef struct {
    const char *name, *kernel;
    unsigned blocks, threads, mask, launches;
} Work;

static const Work works[] = {
    {"stream: 32 MiB + 32 MiB", "stream", LARGE / 256, 256, 0, 1},
    {"gather: at random in 32 MiB", "gather", LARGE / 256, 256, LARGE - 1, 1},
    {"tables: 256 arrays of 100 KiB", "tables", ARRAYS, 256, ELEMENTS - 1, 4},
    {"the same, the plain ones as far apart", "tables apart", ARRAYS, 256, ELEMENTS - 1, 4},
    {"launches: 5,000 of 256 threads", "stream", 1, 256, 0, 5000},
};
enum { WORKS = sizeof works / sizeof *works };

static void guarded(Memory *memory) {
    REQUIRE(cuMemAlloc_v2(&memory->x, 4 * LARGE));
    REQUIRE(cuMemAlloc_v2(&memory->y, 4 * LARGE));
    REQUIRE(cuMemAlloc_v2(&memory->pointers, 8 * ARRAYS));
    for (int i = 0; i < ARRAYS; ++i)
        REQUIRE(cuMemAlloc_v2(&memory->arrays[i], 4 * ELEMENTS));
    memory->pointers_apart = memory->pointers;
    memcpy(memory->arrays_apart, memory->arrays, sizeof memory->arrays);
}

static void plain(Memory *memory) {
    const size_t huge = 2 << 20;
    const size_t page = 4096, distance = 4 * (size_t)ELEMENTS + 2 * page;
    size_t tables = (8 * ARRAYS + 4 * (size_t)ELEMENTS * ARRAYS + page - 1) / page * page;
    size_t bytes = 8 * (size_t)LARGE + tables + (distance + page) * ARRAYS;
    void *start = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    // The library requests huge pages for large arrays, so the plain variant does so, too.
    CUdeviceptr at = ((CUdeviceptr)start + huge - 1) / huge * huge;
    madvise((void *)at, 8 * (size_t)LARGE, MADV_HUGEPAGE);
    memory->x = at;
    memory->y = at + 4 * LARGE;
    memory->pointers = at + 8 * LARGE;
    for (int i = 0; i < ARRAYS; ++i)
        memory->arrays[i] = memory->pointers + 8 * ARRAYS + 4 * (CUdeviceptr)ELEMENTS * i;
    memory->pointers_apart = memory->pointers + tables;
    for (int i = 0; i < ARRAYS; ++i)
        memory->arrays_apart[i] = memory->pointers_apart + page + distance * i;
}

// The host writes device memory directly, because it is host memory.
static void fill(const Memory *memory) {
    float *x = (float *)memory->x, *y = (float *)memory->y;
    for (int i = 0; i < LARGE; ++i) {
        x[i] = (float)(i % 1000);
        y[i] = (float)(i % 7);
    }
    for (int i = 0; i < ARRAYS; ++i) {
        ((CUdeviceptr *)memory->pointers)[i] = memory->arrays[i];
        ((CUdeviceptr *)memory->pointers_apart)[i] = memory->arrays_apart[i];
        for (int j = 0; j < ELEMENTS; ++j)
            ((float *)memory->arrays[i])[j] = ((float *)memory->arrays_apart[i])[j] = (float)((i + j) % 13);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static double run(const Work *work, CUfunction kernel, Memory *memory) {
    unsigned mask = work->mask;
    CUdeviceptr x = memory->x;
    if (!strcmp(work->kernel, "tables"))
        x = memory->pointers;
    if (!strcmp(work->kernel, "tables apart"))
        x = memory->pointers_apart;
    void *arguments[] = {&x, &memory->y, &mask};
    double started = now();
    for (unsigned i = 0; i < work->launches; ++i)
        REQUIRE(cuLaunchKernel(kernel, work->blocks, 1, 1, work->threads, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuCtxSynchronize());
    return now() - started;
}

int main(int count, char **arguments) {
    // Kernels must access the plain mapping, which is not device memory.
    setenv("MARGAY_ISOLATE", "0", 1);
    static Memory memories[2];
    static double least[WORKS][2];
    int rounds = count > 1 ? atoi(arguments[1]) : 1;
    start();
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, TEXT));
    guarded(&memories[0]);
    plain(&memories[1]);
    int first = count > 2 && atoi(arguments[2]) != 0;
    fill(&memories[first]);
    fill(&memories[1 - first]);
    for (int round = 0; round < rounds; ++round)
        for (int w = 0; w < WORKS; ++w) {
            CUfunction kernel;
            char name[16];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(works[w].kernel, " "), works[w].kernel);
            REQUIRE(cuModuleGetFunction(&kernel, module, name));
            for (int turn = 0; turn < 2; ++turn) {
                int way = turn ^ (round & 1);
                struct sigaction known[SIGNALS], none = {.sa_handler = SIG_DFL};
                for (int s = 0; s < SIGNALS && way == 1; ++s)
                    sigaction(signals[s], &none, &known[s]);
                double took = run(&works[w], kernel, &memories[way]);
                for (int s = 0; s < SIGNALS && way == 1; ++s)
                    sigaction(signals[s], &known[s], NULL);
                if (!least[w][way] || took < least[w][way])
                    least[w][way] = took;
            }
            CHECK(memcmp((void *)memories[0].y, (void *)memories[1].y, 4 * LARGE) == 0);
        }
    if (count > 1) {
        printf("| work | guarded, ms | plain, ms | cost |\n|---|---|---|---|\n");
        for (int w = 0; w < WORKS; ++w)
            printf("| %s | %.3f | %.3f | %+.1f %% |\n", works[w].name, least[w][0], least[w][1],
                   (least[w][0] / least[w][1] - 1) * 100);
    }
    return finish();
}
