// Tests the note that names the file of a fault outside device code. Each case runs in its own process, whose standard
// error is a pipe.
#define _GNU_SOURCE
#include "abi.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal) {
    (void)signal;
    _exit(7);
}

// Does what the handler of Rust's standard library does with a fault that it does not know.
static void restore(int signal_number) {
    signal(signal_number, SIG_DFL);
}

static void divide(void) {
    volatile int one_hundred = 100, zero = 0;
    volatile int result = one_hundred / zero;
    (void)result;
}

static void read_null(void) {
    *(volatile int *)8;
}

static void call_null(void) {
    void (*volatile nowhere)(void) = NULL;
    nowhere();
}

static void is_sent(void) {
    raise(SIGSEGV);
}

static void has_handler(void) {
    signal(SIGSEGV, leave);
    read_null();
}

// Runs a case in a process that has initialised the driver. Returns the process's status, and what it wrote.
// With a handler, installs it for SIGSEGV first.
static int status_of(void (*function)(void), void (*handler)(int), char *text, size_t capacity) {
    int pipes[2];
    if (pipe(pipes) != 0) exit(2);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        unsetenv("MARGAY_QUIET");
        if (handler) signal(SIGSEGV, handler);
        start();
        function();
        _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t count; (count = read(pipes[0], text + length, capacity - 1 - length)) > 0;) length += count;
    text[length] = 0;
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

int main(void) {
    char text[4096], own[1024];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = 0;
    const char *name = strrchr(own, '/');
    struct {
        void (*function)(void);
        int signal;
        const char *note;
        void (*handler)(int);
    } cases[] = {
#ifdef __x86_64__
        {divide, SIGFPE, "margay: SIGFPE (integer division by zero or overflow) in /", NULL},
#endif
        {read_null, SIGSEGV, "margay: SIGSEGV (wrong memory access) in /", NULL},
        {read_null, SIGSEGV, "margay: SIGSEGV (wrong memory access) in /", restore},
        {read_null, 0, NULL, leave},
        {call_null, SIGSEGV, "at the address 0x0, which is in no file; called from /", NULL},
        {is_sent, SIGSEGV, NULL, NULL},
        {has_handler, 0, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        int status = status_of(cases[i].function, cases[i].handler, text, sizeof text);
        EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : 0, cases[i].signal);
        if (cases[i].signal == 0) EXPECT(WEXITSTATUS(status), 7);
        if (cases[i].note) {
            EXPECT(strstr(text, cases[i].note) != NULL, 1);
            EXPECT(name != NULL && strstr(text, name) != NULL, 1);
        } else {
            EXPECT(strstr(text, "margay: SIG") == NULL, 1);
        }
    }
    return finish();
}
