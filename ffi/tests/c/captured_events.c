/* Queries of events while a stream of the thread captures: an event of the capture is told from any other. */
#include "driver.h"

enum { THREAD_LOCAL = 1, UNSUPPORTED = 900, INVALIDATED = 901, CAPTURED = 907 };

static CUresult wait_for(CUevent event) { return cuEventSynchronize(event); }
static CUresult query(CUevent event) { return cuEventQuery(event); }

/* Captures a record of one event, asks about it or about another, and the capture is lost either way. */
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
    /* The event is still one of a capture when that has ended. */
    EXPECT(CAPTURED, question(captured));
    OK(question(other));
    OK(cuEventRecord(captured, stream));
    OK(wait_for(captured));
    OK(cuEventDestroy_v2(captured));
    OK(cuEventDestroy_v2(other));
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
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
