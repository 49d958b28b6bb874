// Operations on arrays of one and two dimensions with texels of four bytes.
#pragma once

#include "copies.h"

typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} ArrayDescriptor;
typedef struct {
    size_t x, y;
    int type;
    const void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} CopySide;
typedef struct {
    CopySide src, dst;
    size_t width, height;
} Copy2D;

CUresult cuArray3DCreate_v2(void **, const ArrayDescriptor *);
CUresult cuArray3DGetDescriptor_v2(ArrayDescriptor *, void *);
CUresult cuArrayDestroy(void *);
CUresult cuMemcpyHtoA_v2(void *, size_t, const void *, size_t);
CUresult cuMemcpyAtoH_v2(void *, void *, size_t, size_t);
CUresult cuMemcpy2D_v2(const Copy2D *);

enum { BYTES_8 = 1, TEXEL = 4, FROM_HOST = 1, FROM_DEVICE = 2, FROM_ARRAY = 3 };

static size_t array_bytes(const Array *array) {
    return array->width * TEXEL * (array->height ? array->height : 1);
}

static void create_array(void) {
    int at = PICK(w.arrays, ARRAYS, w.arrays[at].state != LIVE), channels = one_in(8) ? 3 : 4;
    size_t width = one_in(8) ? 0 : 1 + below(40), height = one_in(2) ? 0 : 1 + below(12);
    int format = one_in(8) ? 0x7f : BYTES_8;
    if (at < 0)
        return;
    ArrayDescriptor descriptor = {width, height, 0, format, (unsigned)channels, 0};
    void *handle = NULL;
    int nothing = one_in(12);
    Problems problems = needs_context();
    problem(&problems, nothing || width == 0 || channels == 3 || format != BYTES_8, INVALID_VALUE);
    if (!JUDGE(cuArray3DCreate_v2(&handle, nothing ? NULL : &descriptor), &problems))
        return;
    hidden_memory();
    Array *array = &w.arrays[at];
    *array = (Array){handle, current(), LIVE, width, height, NULL};
    array->mirror = calloc(1, array_bytes(array));
    Copy2D copy = {.src = {.type = FROM_HOST, .host = array->mirror, .pitch = width * TEXEL},
                   .dst = {.type = FROM_ARRAY, .array = handle},
                   .width = width * TEXEL,
                   .height = height ? height : 1};
    if (cuMemcpy2D_v2(&copy) != SUCCESS)
        wrong("first bytes of an array");
}

static int some_array(void) {
    return PICK(w.arrays, ARRAYS,
                w.arrays[at].state == GONE || (w.arrays[at].state == LIVE && w.arrays[at].context == current()));
}

static void gone_array(Problems *problems, int at) {
    problem(problems, w.arrays[at].state == GONE, INVALID_HANDLE);
    problem(problems, w.arrays[at].state == GONE, INVALID_VALUE);
    problem(problems, w.arrays[at].state == GONE, CONTEXT_IS_DESTROYED);
}

static void destroy_array(void) {
    int at = some_array();
    if (at < 0)
        return;
    Problems problems = needs_context();
    problem(&problems, w.arrays[at].state == GONE, INVALID_HANDLE);
    problem(&problems, w.arrays[at].state == GONE, CONTEXT_IS_DESTROYED);
    if (!JUDGE(cuArrayDestroy(w.arrays[at].handle), &problems))
        return;
    w.arrays[at].state = GONE;
    free(w.arrays[at].mirror);
    w.arrays[at].mirror = NULL;
}

static void ask_array(void) {
    int at = some_array();
    if (at < 0)
        return;
    ArrayDescriptor told_ = {.width = 77};
    Problems problems = needs_context();
    gone_array(&problems, at);
    if (JUDGE(cuArray3DGetDescriptor_v2(&told_, w.arrays[at].handle), &problems))
        DEMAND(told_.width == w.arrays[at].width && told_.height == w.arrays[at].height && told_.depth == 0 &&
               told_.channels == 4 && told_.format == BYTES_8);
}

// Copies a part of a one-dimensional array from or to the host.
static void copy_row(void) {
    int at = some_array(), in = one_in(2);
    if (at < 0 || w.arrays[at].height != 0)
        return;
    Array *array = &w.arrays[at];
    size_t bytes = TEXEL * (1 + below((unsigned)array->width)), offset = TEXEL * below(6);
    Problems problems = needs_context();
    gone_array(&problems, at);
    problem(&problems, offset + bytes > array_bytes(array), INVALID_VALUE);
    some_bytes(bytes);
    if (in) {
        if (JUDGE(cuMemcpyHtoA_v2(array->handle, offset, scratch, bytes), &problems))
            memcpy(array->mirror + offset, scratch, bytes);
    } else if (JUDGE(cuMemcpyAtoH_v2(scratch, array->handle, offset, bytes), &problems)) {
        DEMAND(memcmp(scratch, array->mirror + offset, bytes) == 0);
    }
}

// Copies a rectangle between an array and a block or the host.
static void copy_rectangle(void) {
    int at = some_array(), in = one_in(2), host = one_in(2);
    if (at < 0)
        return;
    Array *array = &w.arrays[at];
    size_t rows = array->height ? array->height : 1, row = array->width * TEXEL;
    size_t width = TEXEL * (1 + below((unsigned)array->width)), height = 1 + below((unsigned)rows);
    size_t x = TEXEL * below((unsigned)array->width), y = below((unsigned)rows);
    size_t pitch = one_in(10) ? width - 1 : width + below(9);
    if (!one_in(6)) {
        x = x + width > row ? 0 : x;
        y = y + height > rows ? 0 : y;
    }
    int small = pitch < width;
    Part part = {-1, 0, 0, 0, 1};
    if (!host) {
        part = some_part(pitch * (height - 1) + width);
        if (part.fits)
            settle(&w.blocks[part.at], here());
    }
    if (small && host && height > 1)
        pitch = width - 1; // The driver must not read memory, because the pitch is less than the width.
    Problems problems = needs_context();
    gone_array(&problems, at);
    problem(&problems, small || x + width > row || y + height > rows, INVALID_VALUE);
    outside(&problems, &part);
    CopySide other = {.type = host ? FROM_HOST : FROM_DEVICE, .host = scratch, .device = part.address, .pitch = pitch};
    CopySide ours = {.x = x, .y = y, .type = FROM_ARRAY, .array = array->handle};
    Copy2D copy = {in ? other : ours, in ? ours : other, width, height};
    some_bytes(pitch * height);
    if (!JUDGE(cuMemcpy2D_v2(&copy), &problems))
        return;
    unsigned char *flat = host ? scratch : bytes_of(&part);
    for (size_t i = 0; i < height; ++i) {
        unsigned char *inside = array->mirror + (y + i) * row + x;
        if (in)
            memcpy(inside, flat + i * pitch, width);
        else if (host)
            DEMAND(memcmp(flat + i * pitch, inside, width) == 0);
        else
            memcpy(flat + i * pitch, inside, width);
    }
    if (!host)
        w.blocks[part.at].busy = here();
}

static void check_array(Array *array) {
    Copy2D copy = {.src = {.type = FROM_ARRAY, .array = array->handle},
                   .dst = {.type = FROM_HOST, .host = scratch, .pitch = array->width * TEXEL},
                   .width = array->width * TEXEL,
                   .height = array->height ? array->height : 1};
    CUresult got = cuMemcpy2D_v2(&copy);
    if (got != SUCCESS)
        wrong("reading an array: %s", result_name(got));
    DEMAND(memcmp(scratch, array->mirror, array_bytes(array)) == 0);
}
