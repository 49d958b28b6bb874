/* A replacement for nvJitLink: it counts its handles and rejects one option. */
#include <string.h>

static int live;

int nvJitLinkCreate(void **handle, unsigned count, const char **options) {
    for (unsigned i = 0; i < count; i++)
        if (!strcmp(options[i], "-unknown")) return 1;
    *handle = &live;
    live++;
    return 0;
}
int nvJitLinkDestroy(void **handle) { (void)handle; live--; return 0; }
int nvJitLinkAddData(void *handle, int kind, const void *data, size_t size, const char *name) {
    (void)handle, (void)kind, (void)data, (void)size, (void)name;
    return 6;
}
int nvJitLinkComplete(void *handle) { (void)handle; return 6; }
int nvJitLinkGetErrorLogSize(void *handle, size_t *size) { (void)handle; return *size = 0, 0; }
int nvJitLinkGetErrorLog(void *handle, char *log) { (void)handle, (void)log; return 0; }
int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size) { (void)handle, (void)size; return 6; }
int nvJitLinkGetLinkedCubin(void *handle, void *out) { (void)handle, (void)out; return 6; }
int live_handles(void) { return live; }
