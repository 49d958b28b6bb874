// Tests signal handlers of the program. Faults of kernels are CUDA errors, whatever handlers the program installs and
// whenever it does so. The program's handlers get the program's own faults as the operating system would have delivered
// them. Each case runs in its own process.
#define _GNU_SOURCE
#include "abi.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char FAULTS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry wild() {\n"
    "  .reg .b64 %a; mov.u64 %a, 0x1234567890; st.global.u32 [%a], 1; ret; }\n"
    ".visible .entry odd(.param .u64 p) {\n"
    "  .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a+2], 1; ret; }\n"
    ".visible .entry fine(.param .u64 p) {\n"
    "  .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 7; ret; }\n"
    // Loops n times, then writes to a wrong address.
    ".visible .entry later(.param .u64 n) {\n"
    "  .reg .b64 %a, %n; .reg .pred %p; ld.param.u64 %n, [n]; mov.u64 %a, 0x1234567890;\n"
    "again: mul.lo.u64 %a, %a, 3; add.u64 %n, %n, -1; setp.ne.u64 %p, %n, 0; @%p bra again;\n"
    "  mov.u64 %a, 0x1234567890; st.global.u32 [%a], 1; ret; }\n";

static CUmodule module;
static CUdeviceptr memory;

static void up(void) {
    start();
    REQUIRE(cuModuleLoadData(&module, FAULTS));
    REQUIRE(cuMemAlloc_v2(&memory, 4096));
}

static CUresult launched(const char *name, unsigned long long argument) {
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, name));
    void *params[] = {&argument};
    CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    return result ? result : cuCtxSynchronize();
}

// Launches a kernel without a fault and a kernel with a fault, then resets the device, four times.
static void device_faults(void) {
    static const struct {
        const char *name;
        CUresult result;
    } faults[] = {{"wild", ILLEGAL_ADDRESS}, {"odd", 716}};
    for (int i = 0; i < 4; ++i) {
        EXPECT(launched("fine", memory), SUCCESS);
        EXPECT(launched(faults[i % 2].name, memory), faults[i % 2].result);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        up();
    }
}

// What handlers record. The parent process can read it after the process has died.
static struct seen {
    volatile int calls;
    volatile int signal, code;
    void *volatile address;
    volatile char *volatile stack;
    volatile int blocks_segv, blocks_usr1;
    volatile pid_t thread;
} *seen;

static sigjmp_buf back;
static struct sigaction found;

static void note(int signal, siginfo_t *info) {
    char here;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    ++seen->calls;
    seen->signal = signal;
    seen->code = info ? info->si_code : 0;
    seen->address = info ? info->si_addr : NULL;
    seen->stack = &here;
    seen->blocks_segv = sigismember(&mask, SIGSEGV);
    seen->blocks_usr1 = sigismember(&mask, SIGUSR1);
    seen->thread = syscall(SYS_gettid);
}

static void leaves(int signal, siginfo_t *info, void *context) {
    note(signal, info);
    siglongjmp(back, 1);
}

static void returns(int signal, siginfo_t *info, void *context) { note(signal, info); }

static void plain(int signal) {
    note(signal, NULL);
    siglongjmp(back, 1);
}

static void passes_on(int signal, siginfo_t *info, void *context) {
    note(signal, info);
    if (seen->calls > 3) _exit(9);
    if (found.sa_flags & SA_SIGINFO)
        found.sa_sigaction(signal, info, context);
    else if (found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN)
        found.sa_handler(signal);
    else
        signal = 0, sigaction(SIGSEGV, &found, NULL);
}

// Restores the earlier handler and raises the signal again, as Python's faulthandler does.
static void gives_up(int signal, siginfo_t *info, void *context) {
    note(signal, info);
    if (seen->calls > 3) _exit(9);
    sigaction(SIGSEGV, &found, NULL);
    raise(signal);
}

static void set(void (*handler)(int, siginfo_t *, void *), int flags, int also_blocked) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    if (also_blocked) sigaddset(&action.sa_mask, also_blocked);
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (int i = 0; i < 4; ++i) sigaction(signals[i], &action, i ? NULL : &found);
}

static void own_fault(void) { *(volatile int *)8 = 1; }

// Causes a fault of the program itself. The handler leaves by a jump.
static void caught(int calls) {
    seen->calls = 0;
    if (!sigsetjmp(back, 1)) {
        own_fault();
        CHECK(!"a fault");
    }
    CHECK(seen->calls == calls);
    CHECK(seen->signal == SIGSEGV);
    CHECK(seen->thread == syscall(SYS_gettid));
}

static void after_init(void) {
    up();
    set(leaves, 0, SIGUSR1);
    device_faults();
    CHECK(seen->calls == 0);
    caught(1);
    CHECK(seen->address == (void *)8 && seen->code == SEGV_MAPERR);
    CHECK(seen->blocks_segv && seen->blocks_usr1);
    device_faults();
    set(leaves, SA_NODEFER, 0);
    device_faults();
    caught(1);
    CHECK(!seen->blocks_segv && !seen->blocks_usr1);
    for (int i = 0; i < 50; ++i) {
        caught(1);
        EXPECT(launched("wild", 0), ILLEGAL_ADDRESS);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        up();
    }
}

static void before_init(void) {
    set(leaves, 0, 0);
    up();
    device_faults();
    CHECK(seen->calls == 0);
    caught(1);
}

static void default_action(void) {
    up();
    signal(SIGSEGV, SIG_DFL);
    signal(SIGILL, SIG_DFL);
    device_faults();
    own_fault();
}

static void ignored(void) {
    up();
    signal(SIGSEGV, SIG_IGN);
    signal(SIGILL, SIG_IGN);
    device_faults();
    raise(SIGSEGV);
    kill(getpid(), SIGILL);
    own_fault();
}

static void by_system_call(void) {
    up();
    // The operating system's own structure: handler, flags, restorer and mask, all 0 (the default action).
    unsigned long action[4] = {0};
    CHECK(syscall(SYS_rt_sigaction, SIGSEGV, action, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGILL, action, NULL, 8) == 0);
    device_faults();
    own_fault();
}

static void old_interface(void) {
    up();
    signal(SIGSEGV, plain);
    device_faults();
    CHECK(seen->calls == 0);
    caught(1);
    // The program sets another action for a while and then restores the handler.
    void (*before)(int) = signal(SIGSEGV, SIG_DFL);
    device_faults();
    signal(SIGSEGV, before);
    device_faults();
    caught(1);
}

static void put_back(void) {
    up();
    set(leaves, 0, 0);
    device_faults();
    sigaction(SIGSEGV, &found, NULL);
    device_faults();
    seen->calls = 0;
    own_fault();
}

static void chained(void) {
    up();
    set(passes_on, 0, 0);
    device_faults();
    seen->calls = 0;
    own_fault();
}

static void given_up(void) {
    up();
    set(gives_up, SA_NODEFER, 0);
    device_faults();
    seen->calls = 0;
    own_fault();
}

static void reset_hand(void) {
    up();
    set(leaves, SA_RESETHAND, 0);
    device_faults();
    caught(1);
    device_faults();
    seen->calls = 0;
    own_fault();
}

static void alternate_stack(void) {
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    up();
    sigaltstack(&alternate, NULL);
    set(leaves, SA_ONSTACK, 0);
    device_faults();
    caught(1);
    CHECK(seen->stack >= stack && seen->stack < stack + sizeof stack);
    device_faults();
    CHECK(seen->calls == 1);
}

static void *faults_here(void *unused) {
    caught(1);
    return NULL;
}

static void in_a_thread(void) {
    up();
    set(leaves, 0, 0);
    device_faults();
    pthread_t thread;
    pthread_create(&thread, NULL, faults_here, NULL);
    pthread_join(thread, NULL);
    device_faults();
}

static void sent(void) {
    up();
    set(returns, 0, 0);
    device_faults();
    CHECK(seen->calls == 0);
    raise(SIGSEGV);
    CHECK(seen->calls == 1 && seen->code == SI_TKILL);
    kill(getpid(), SIGFPE);
    CHECK(seen->calls == 2 && seen->code == SI_USER && seen->signal == SIGFPE);
    device_faults();
    CHECK(seen->calls == 2);
}

static void all_blocked(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    up();
    device_faults();
    set(leaves, 0, 0);
    device_faults();
    CHECK(seen->calls == 0);
}

// The main thread installs a handler while a kernel runs, and then waits for the kernel.
static void during_a_launch(void) {
    up();
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, "later"));
    EXPECT(launched("fine", memory), SUCCESS);
    for (int i = 0; i < 3; ++i) {
        unsigned long long turns = 200000000;
        void *params[] = {&turns};
        REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        usleep(3000);
        set(leaves, i, 0);
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        up();
        REQUIRE(cuModuleGetFunction(&function, module, "later"));
    }
    CHECK(seen->calls == 0);
}

static void many_actions(void) {
    up();
    for (int i = 1; i < 60; ++i) {
        set(i % 2 ? leaves : returns, i % 3 ? 0 : SA_NODEFER, i);
        EXPECT(launched("wild", 0), ILLEGAL_ADDRESS);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
        up();
    }
    set(leaves, 0, 0);
    device_faults();
    CHECK(seen->calls == 0);
    caught(1);
}

// The program installs a handler between two launches, while many earlier launches wait or run or have just ended. A
// worker that has checked our handlers for the earlier launches must check them again.
static void between_launches(void) {
    for (int i = 0; i < 20; ++i) {
        up();
        CUfunction fine, wild;
        REQUIRE(cuModuleGetFunction(&fine, module, "fine"));
        REQUIRE(cuModuleGetFunction(&wild, module, "wild"));
        void *params[] = {&memory};
        for (int j = 0; j < 50 * i; ++j) REQUIRE(cuLaunchKernel(fine, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        if (i % 2) REQUIRE(cuCtxSynchronize());
        set(returns, 0, 0);
        REQUIRE(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        CHECK(seen->calls == 0);
        REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    }
}

// The program has handlers for all real-time signals, and a reset has to stop a launch.
static void stop_signal_taken(void) {
    up();
    struct sigaction action = {.sa_sigaction = returns, .sa_flags = SA_SIGINFO};
    for (int i = SIGRTMIN; i <= SIGRTMAX; ++i) sigaction(i, &action, NULL);
    CUmodule kernels;
    CUfunction spin;
    REQUIRE(cuModuleLoadData(&kernels, KERNELS));
    REQUIRE(cuModuleGetFunction(&spin, kernels, "spin"));
    REQUIRE(cuMemsetD32_v2(memory, 0, 1));
    void *params[] = {&memory};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    usleep(20000);
    REQUIRE(cuDevicePrimaryCtxReset_v2(0));
    up();
    EXPECT(launched("fine", memory), SUCCESS);
    CHECK(seen->calls == 0);
    // The program's handlers still get the program's signals.
    for (int i = SIGRTMIN; i <= SIGRTMAX; ++i) raise(i);
    CHECK(seen->calls == SIGRTMAX - SIGRTMIN + 1);
}

// Checks that a program that waits for a real-time signal gets every such signal that is sent to the process.
static void waits_for_signals(void) {
    int number = SIGRTMAX - 2, got = 0;
    struct timespec second = {1, 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    up();
    EXPECT(launched("fine", memory), SUCCESS);
    for (int i = 0; i < 100; ++i) {
        siginfo_t info;
        sigqueue(getpid(), number, (union sigval){.sival_int = i});
        got += sigtimedwait(&set, &info, &second) == number && info.si_value.sival_int == i;
    }
    CHECK(got == 100);
}

static const struct {
    const char *name;
    void (*run)(void);
    int death, calls;
} cases[] = {
    {"before cuInit", before_init, 0, -1},
    {"after cuInit", after_init, 0, -1},
    {"SIG_DFL", default_action, SIGSEGV, 0},
    {"SIG_IGN", ignored, SIGSEGV, 0},
    {"by system call", by_system_call, SIGSEGV, 0},
    {"signal()", old_interface, 0, -1},
    {"put back", put_back, SIGSEGV, 0},
    {"chained", chained, SIGSEGV, 1},
    {"given up", given_up, SIGSEGV, 1},
    {"SA_RESETHAND", reset_hand, SIGSEGV, 0},
    {"alternate stack", alternate_stack, 0, -1},
    {"in a thread", in_a_thread, 0, -1},
    {"sent", sent, 0, -1},
    {"all blocked", all_blocked, 0, -1},
    {"during a launch", during_a_launch, 0, -1},
    {"many actions", many_actions, 0, -1},
    {"between launches", between_launches, 0, 0},
    {"stop signal taken", stop_signal_taken, 0, -1},
    {"waits for signals", waits_for_signals, 0, -1},
};

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; ++i) {
        if (count > 1 && strcmp(arguments[1], cases[i].name)) continue;
        memset(seen, 0, sizeof *seen);
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            cases[i].run();
            _exit(failures ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        int death = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        if (death != cases[i].death || code || (cases[i].calls >= 0 && seen->calls != cases[i].calls)) {
            printf("%s: signal %d, code %d, %d calls of the handler\n", cases[i].name, death, code, seen->calls);
            ++failures;
        }
    }
    return finish();
}
