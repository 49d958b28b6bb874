// Operations on modules: loading, lookups, launches, unloading.
#pragma once

#include "copies.h"

// fill: v[i] = value + i + tag for i < n.
static const char FILL[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 tag = 11;\n"
    ".visible .entry fill(.param .u64 v, .param .u32 n, .param .u32 value)\n{\n"
    "    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p bra done;\n"
    "    ld.param.u64 %rd1, [v]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;\n"
    "    ld.param.u32 %r6, [value]; ld.global.u32 %r7, [tag]; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r4;\n"
    "    st.global.u32 [%rd3], %r6;\n"
    "done:\n    ret;\n}\n";

static void load_module(void) {
    int at = PICK(w.modules, MODULES, w.modules[at].state != LIVE), image = (int)below(10);
    CUmodule handle = NULL;
    if (at < 0)
        return;
    Problems problems = needs_context();
    problem(&problems, image == 0, INVALID_VALUE);
    problem(&problems, image == 1, INVALID_PTX);
    problem(&problems, image == 1, INVALID_IMAGE);
    const char *text = image == 0 ? NULL : image == 1 ? ".version 7.0\n.target sm_70\nnonsense" : FILL;
    if (!JUDGE(cuModuleLoadData(&handle, text), &problems))
        return;
    hidden_memory();
    w.modules[at] = (Module){handle, NULL, 0, 11, current(), LIVE};
    Problems none = {.count = 0};
    size_t bytes = 0;
    JUDGE(cuModuleGetFunction(&w.modules[at].fill, handle, "fill"), &none);
    JUDGE(cuModuleGetGlobal_v2(&w.modules[at].tag, &bytes, handle, "tag"), &none);
    DEMAND(bytes == 4 && live_block(w.modules[at].tag) < 0);
}

static void gone_module(Problems *problems, int at) {
    problem(problems, w.modules[at].state == GONE, INVALID_VALUE);
    problem(problems, w.modules[at].state == GONE, INVALID_HANDLE);
    problem(problems, w.modules[at].state == GONE, CONTEXT_IS_DESTROYED);
}

static int some_module(void) {
    return PICK(w.modules, MODULES,
                w.modules[at].state == GONE ||
                    (w.modules[at].state == LIVE && w.modules[at].context == current()));
}

static void look_into_module(void) {
    int at = some_module(), name = (int)below(4);
    if (at < 0)
        return;
    const char *text = name == 0 ? NULL : name == 1 ? "nothing" : NULL;
    CUfunction function = NULL;
    CUdeviceptr tag = 0;
    size_t bytes = 0;
    Problems problems = {.count = 0};
    if (!has_context())
        problems = needs_context();
    gone_module(&problems, at);
    problem(&problems, name == 0, INVALID_VALUE);
    problem(&problems, name == 1, NOT_FOUND);
    if (one_in(2)) {
        if (JUDGE(cuModuleGetFunction(&function, w.modules[at].handle, name > 1 ? "fill" : text), &problems))
            DEMAND(function == w.modules[at].fill);
        return;
    }
    if (name == 0)
        return; // The result for a null name of a variable is not specified.
    if (JUDGE(cuModuleGetGlobal_v2(&tag, &bytes, w.modules[at].handle, name > 1 ? "tag" : text), &problems))
        DEMAND(tag == w.modules[at].tag && bytes == 4);
}

static void unload_module(void) {
    int at = some_module();
    if (at < 0)
        return;
    Problems problems = {.count = 0};
    if (!has_context())
        problems = needs_context();
    gone_module(&problems, at);
    if (JUDGE(cuModuleUnload(w.modules[at].handle), &problems))
        w.modules[at].state = GONE;
}

// Writes and reads the variable of a module, and checks that `cuMemFree` does not free it.
static void use_variable(void) {
    int at = PICK(w.modules, MODULES, w.modules[at].state == LIVE && w.modules[at].context == current());
    unsigned value = (unsigned)draw(), seen = 0, bytes = one_in(6) ? 5 : 4;
    if (at < 0)
        return;
    Problems problems = needs_context(), none = needs_context();
    problem(&problems, bytes == 5, INVALID_VALUE);
    memcpy(scratch, &value, 4);
    if (JUDGE(cuMemcpyHtoD_v2(w.modules[at].tag, scratch, bytes), &problems))
        w.modules[at].tag_value = value;
    JUDGE(cuMemcpyDtoH_v2(&seen, w.modules[at].tag, 4), &none);
    DEMAND(seen == w.modules[at].tag_value);
    problem(&none, 1, INVALID_VALUE);
    if (one_in(4))
        JUDGE(cuMemFree_v2(w.modules[at].tag), &none);
}

// Launches a kernel that writes to a block of the module's context. The module may belong to the current or another
// context, or be unloaded.
static void launch(void) {
    int at = PICK(w.modules, MODULES, w.modules[at].state != UNMADE);
    if (at < 0)
        return;
    Module *module = &w.modules[at];
    int ours = module->state == LIVE && module->context == current();
    int to = PICK(w.blocks, BLOCKS,
                  w.blocks[at].live && w.blocks[at].kind != POOLED && w.blocks[at].kind != HOST &&
                      w.blocks[at].context == module->context && w.blocks[at].bytes >= 4);
    int stream = PICK(w.streams, STREAMS, w.streams[at].state == LIVE && w.streams[at].context == current());
    unsigned threads = one_in(10) ? (one_in(2) ? 0 : 2048) : 32u << below(4), blocks = one_in(12) ? 0 : 1;
    if (ours && to < 0)
        return;
    CUdeviceptr address = ours ? w.blocks[to].at : 0;
    unsigned count = ours ? (unsigned)(w.blocks[to].bytes / 4) : 0, value = (unsigned)draw();
    if (ours && blocks && threads >= 32 && threads <= 1024)
        blocks = (count + threads - 1) / threads;
    void *arguments[] = {&address, &count, &value};
    Problems problems = needs_context();
    problem(&problems, !ours, INVALID_HANDLE);
    problem(&problems, !ours, INVALID_VALUE);
    problem(&problems, !ours, INVALID_CONTEXT);
    problem(&problems, !ours, CONTEXT_IS_DESTROYED);
    problem(&problems, threads == 0 || threads > 1024 || blocks == 0, INVALID_VALUE);
    if (ours)
        settle(&w.blocks[to], stream < 0 ? here() : stream);
    CUstream handle = stream < 0 ? NULL : w.streams[stream].handle;
    if (!JUDGE(cuLaunchKernel(module->fill, blocks, 1, 1, threads, 1, 1, 0, handle, arguments, NULL), &problems))
        return;
    for (unsigned i = 0; i < count; ++i)
        put(w.blocks[to].mirror + 4 * i, value + i + module->tag_value, 4, 1);
    w.blocks[to].busy = stream < 0 ? here() : stream;
    // The kernel must read the variable before a later call changes it.
    if (handle && cuStreamSynchronize(handle) != SUCCESS)
        wrong("waiting for a kernel");
}
