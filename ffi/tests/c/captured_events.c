/* Effects of event queries and of the destruction of joined streams on a capture. */
#include "driver.h"

enum { THREAD_LOCAL = 1, UNSUPPORTED = 900, INVALIDATED = 901, UNJOINED = 904, CAPTURED = 907 };

static int counted;

static void count(void *number) { counted += (int)(size_t)number; }

static CUresult wait_for(CUevent event) { return cuEventSynchronize(event); }
static CUresult query(CUevent event) { return cuEventQuery(event); }

/* Captures a record of one event, then queries this event or another event. Both queries invalidate the capture. */
static void ask(CUresult (*question)(CUevent), int about_captured, CUresult wanted) {
    CUstream stream;
    CUevent captured, other;
    void *graph;
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&captured, 0));
    OK(cuEventCreate(&other, 0));
    OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    OK(cuEventRecord(captured, stream));
    EXPECT(wanted, question(about_captured ? captured : other));
    EXPECT(INVALIDATED, cuStreamEndCapture(stream, &graph));
    /* The event counts as captured even after the capture has ended. */
    EXPECT(CAPTURED, question(captured));
    OK(question(other));
    OK(cuEventRecord(captured, stream));
    OK(wait_for(captured));
    OK(cuEventDestroy_v2(captured));
    OK(cuEventDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
}

/* Destroys a stream that joined a capture. The capture continues, and ends well if the stream's work was joined. */
static void destroyed(int joined, CUresult wanted) {
    CUstream stream, branch;
    CUevent fork, back;
    void *graph = 0;
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&branch, 1));
    OK(cuEventCreate(&fork, 0));
    OK(cuEventCreate(&back, 0));
    OK(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    OK(cuLaunchHostFunc(stream, count, (void *)1));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(branch, fork, 0));
    OK(cuLaunchHostFunc(branch, count, (void *)10));
    OK(cuEventRecord(back, branch));
    if (joined)
        OK(cuStreamWaitEvent(stream, back, 0));
    OK(cuStreamDestroy_v2(branch));
    OK(cuLaunchHostFunc(stream, count, (void *)100));
    EXPECT(wanted, cuStreamEndCapture(stream, &graph));
    if (wanted == 0) {
        void *exec;
        counted = 0;
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(counted == 111);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
    OK(cuEventDestroy_v2(fork));
    OK(cuEventDestroy_v2(back));
    OK(cuStreamDestroy_v2(stream));
}

int main(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    ask(query, 1, CAPTURED);
    ask(query, 0, UNSUPPORTED);
    ask(wait_for, 1, CAPTURED);
    ask(wait_for, 0, UNSUPPORTED);
    destroyed(1, 0);
    destroyed(0, UNJOINED);
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
