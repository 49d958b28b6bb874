/* Looks up the functions of both libraries by dlsym in files that are opened by path, as Python clients do, and
   those of NVRTC also by linking. Prints the results. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define GET(library, name) (*(int (*)())dlsym(library, name))

int nvrtcGetCUBINSize(void *, size_t *);

static const char *PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

static void compile(void *nvrtc, const char *arch, const char *more) {
    const char *options[] = {arch, more};
    size_t size = 0;
    int code = GET(nvrtc, "nvrtcCompileProgram")((void *)0, 2, options);
    GET(nvrtc, "nvrtcGetCUBINSize")((void *)0, &size);
    char *image = calloc(size + 1, 1);
    GET(nvrtc, "nvrtcGetCUBIN")((void *)0, image);
    printf("%d %zu %s\n", code, size, image);
    size_t linked = 0;
    nvrtcGetCUBINSize((void *)0, &linked);
    if (linked != size) printf("the linked function says %zu\n", linked);
}

static void link_texts(void *linker, const char *text) {
    const char *options[] = {"-arch=sm_80"};
    void *handle = 0;
    size_t size = 0, log = 0;
    GET(linker, "nvJitLinkCreate")(&handle, 1, options);
    int added = GET(linker, "nvJitLinkAddData")(handle, 2, text, (size_t)__builtin_strlen(text) + 1, "a.ptx");
    int done = GET(linker, "nvJitLinkComplete")(handle);
    GET(linker, "nvJitLinkGetLinkedCubinSize")(handle, &size);
    GET(linker, "nvJitLinkGetErrorLogSize")(handle, &log);
    char *image = calloc(size + 1, 1);
    GET(linker, "nvJitLinkGetLinkedCubin")(handle, image);
    printf("%d %d %d %d %.12s\n", added, done, size > 0, log > 0, image);
    GET(linker, "nvJitLinkDestroy")(&handle);
    printf("%d live, %p\n", GET(linker, "live_handles")(), handle);
}

/* Links no input at all, which gives an image without code. */
static void link_nothing(void *linker) {
    const char *options[] = {"-arch=sm_80"};
    void *handle = 0;
    size_t size = 0;
    GET(linker, "nvJitLinkCreate")(&handle, 1, options);
    int done = GET(linker, "nvJitLinkComplete")(handle);
    GET(linker, "nvJitLinkGetLinkedCubinSize")(handle, &size);
    char *image = calloc(size + 1, 1);
    GET(linker, "nvJitLinkGetLinkedCubin")(handle, image);
    printf("nothing: %d %.12s\n", done, image);
    GET(linker, "nvJitLinkDestroy")(&handle);
}

int main(int count, char **arguments) {
    (void)count;
    void *nvrtc = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *linker = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (!nvrtc || !linker) return puts(dlerror()), 1;
    compile(nvrtc, "-arch=sm_86", "-I.");
    compile(nvrtc, "-arch=sm_86", "--refuse-virtual");
    link_texts(linker, PTX);
    link_texts(linker, "no PTX at all");
    link_nothing(linker);
    const char *unknown[] = {"-unknown"};
    void *handle = 0;
    printf("%d %p\n", GET(linker, "nvJitLinkCreate")(&handle, 1, unknown), handle);
    return 0;
}
