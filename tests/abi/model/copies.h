// Copies and fills inside blocks, past their end, and between them. The bytes are compared when a copy brings them to
// the host, and at the end of a random program.
#pragma once

#include "memory.h"

CUresult cuMemsetD2D8_v2(CUdeviceptr, size_t, unsigned char, size_t, size_t);
CUresult cuMemsetD2D32_v2(CUdeviceptr, size_t, unsigned, size_t, size_t);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);

static unsigned char scratch[1 << 16];

// A range of addresses: mostly inside a block, sometimes one byte past its end or elsewhere. `at` is the block's index,
// or -1 if the range begins in no block.
typedef struct {
    int at;
    CUdeviceptr address;
    size_t offset, bytes;
    int fits;
} Part;

static Part part_of(int at, size_t bytes) {
    Part part = {at, 0, 0, bytes, 0};
    if (at < 0 || one_in(9)) {
        part.at = -1;
        part.address = nowhere();
        return part;
    }
    Block *block = &w.blocks[at];
    if (bytes > 1 && one_in(9)) {
        // The range begins inside the block and ends one byte past its end.
        part.offset = bytes > block->bytes ? 0 : block->bytes - bytes + 1;
    } else if (bytes <= block->bytes) {
        part.offset = below((unsigned)(block->bytes - bytes + 1));
        part.fits = 1;
    }
    part.address = block->at + part.offset;
    return part;
}

static Part some_part(size_t bytes) {
    return part_of(PICK(w.blocks, BLOCKS, w.blocks[at].live && w.blocks[at].bytes >= bytes), bytes);
}

static void outside(Problems *problems, const Part *part) {
    problem(problems, part->bytes > 0 && !part->fits, INVALID_VALUE);
}

static unsigned char *bytes_of(const Part *part) {
    return w.blocks[part->at].mirror + part->offset;
}

static void some_bytes(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
        scratch[i] = (unsigned char)draw();
}

static size_t some_size(void) {
    return one_in(12) ? 0 : 1 + below(one_in(3) ? 2000 : 60);
}

static void copy_in(void) {
    size_t bytes = some_size();
    Part to = some_part(bytes);
    int no_host = one_in(12);
    Problems problems = needs_context();
    outside(&problems, &to);
    problem(&problems, no_host && bytes > 0, INVALID_VALUE);
    if (to.fits)
        settle(&w.blocks[to.at], here());
    some_bytes(bytes);
    if (!JUDGE(cuMemcpyHtoD_v2(to.address, no_host ? NULL : scratch, bytes), &problems) || bytes == 0)
        return;
    memcpy(bytes_of(&to), scratch, bytes);
    w.blocks[to.at].busy = here();
}

static void copy_out(void) {
    size_t bytes = some_size();
    Part from = some_part(bytes);
    Problems problems = needs_context();
    outside(&problems, &from);
    if (from.fits)
        settle(&w.blocks[from.at], here());
    memset(scratch, 0x77, bytes + 1);
    if (JUDGE(cuMemcpyDtoH_v2(scratch, from.address, bytes), &problems) && bytes)
        DEMAND(memcmp(scratch, bytes_of(&from), bytes) == 0);
    DEMAND(scratch[bytes] == 0x77);
}

static void copy_across(void) {
    size_t bytes = some_size();
    Part to = some_part(bytes), from = some_part(bytes);
    int unified = one_in(2);
    if (to.at == from.at)
        return; // The result of overlapping ranges is not specified.
    Problems problems = needs_context();
    outside(&problems, &to);
    outside(&problems, &from);
    // `cuMemcpy` may treat an address outside of all blocks as memory of the program, so its result is not specified.
    if (unified && bytes > 0 && !(to.fits && from.fits))
        return;
    if (to.fits)
        settle(&w.blocks[to.at], here());
    if (from.fits)
        settle(&w.blocks[from.at], here());
    int good = unified ? JUDGE(cuMemcpy(to.address, from.address, bytes), &problems)
                       : JUDGE(cuMemcpyDtoD_v2(to.address, from.address, bytes), &problems);
    if (!good || bytes == 0)
        return;
    memcpy(bytes_of(&to), bytes_of(&from), bytes);
    w.blocks[to.at].busy = w.blocks[from.at].busy = here();
}

static void put(unsigned char *to, unsigned value, unsigned width, size_t count) {
    for (size_t i = 0; i < count * width; ++i)
        to[i] = (unsigned char)(value >> (8 * (i % width)));
}

static void fill(void) {
    unsigned width = 1u << below(3), value = (unsigned)draw();
    size_t count = some_size() / width;
    Part to = some_part(count * width);
    if (to.at >= 0 && !one_in(8)) {
        // Moves the range to whole elements. The block itself is aligned.
        size_t less = to.offset % width;
        to.offset -= less;
        to.address -= less;
        to.fits = to.offset + to.bytes <= w.blocks[to.at].bytes;
    }
    Problems problems = needs_context();
    outside(&problems, &to);
    if (count == 0 && to.address % width != 0)
        return; // The result for no elements at a misaligned address is not specified.
    problem(&problems, to.address % width != 0, INVALID_VALUE);
    if (to.fits)
        settle(&w.blocks[to.at], here());
    int good = width == 1   ? JUDGE(cuMemsetD8_v2(to.address, (unsigned char)value, count), &problems)
               : width == 2 ? JUDGE(cuMemsetD16_v2(to.address, (unsigned short)value, count), &problems)
                            : JUDGE(cuMemsetD32_v2(to.address, value, count), &problems);
    if (!good || count == 0)
        return;
    put(bytes_of(&to), value, width, count);
    w.blocks[to.at].busy = here();
}

static void fill_rows(void) {
    size_t width = 1 + below(12), rows = 1 + below(5), pitch = width + below(9);
    unsigned char value = (unsigned char)draw();
    Part to = some_part(pitch * (rows - 1) + width);
    if (to.fits)
        settle(&w.blocks[to.at], here());
    Problems problems = needs_context();
    outside(&problems, &to);
    if (!JUDGE(cuMemsetD2D8_v2(to.address, pitch, value, width, rows), &problems))
        return;
    for (size_t row = 0; row < rows; ++row)
        put(bytes_of(&to) + row * pitch, value, 1, width);
    w.blocks[to.at].busy = here();
}

// Copies or fills in a stream of the current context, or in a destroyed stream.
static void in_a_stream(void) {
    size_t bytes = 1 + below(500);
    Part to = some_part(bytes), from = some_part(bytes);
    int at = PICK(w.streams, STREAMS, w.streams[at].state == LIVE && w.streams[at].context == current());
    int gone = PICK(w.streams, STREAMS, w.streams[at].state == GONE), copies = one_in(2);
    if (gone >= 0 && (at < 0 || one_in(8)))
        at = gone;
    if (at < 0 || (copies && to.at == from.at))
        return;
    Problems problems = needs_context();
    int stale = w.streams[at].state == GONE;
    problem(&problems, stale, INVALID_HANDLE);
    problem(&problems, stale, INVALID_VALUE); // Fills may return this code for a destroyed stream.
    problem(&problems, stale, CONTEXT_IS_DESTROYED);
    outside(&problems, &to);
    if (copies)
        outside(&problems, &from);
    if (to.fits)
        settle(&w.blocks[to.at], at);
    if (copies && from.fits)
        settle(&w.blocks[from.at], at);
    unsigned char value = (unsigned char)draw();
    CUstream stream = w.streams[at].handle;
    int good = copies ? JUDGE(cuMemcpyDtoDAsync_v2(to.address, from.address, bytes, stream), &problems)
                      : JUDGE(cuMemsetD8Async(to.address, value, bytes, stream), &problems);
    if (!good)
        return;
    if (copies) {
        memcpy(bytes_of(&to), bytes_of(&from), bytes);
        w.blocks[from.at].busy = at;
    } else {
        memset(bytes_of(&to), value, bytes);
    }
    w.blocks[to.at].busy = at;
}

// Compares all bytes of a block with the model.
static void check_block(Block *block) {
    settle(block, IDLE);
    if (block->kind == HOST) {
        DEMAND(memcmp((void *)(uintptr_t)block->at, block->mirror, block->bytes) == 0);
        return;
    }
    CUresult got = cuMemcpyDtoH_v2(scratch, block->at, block->bytes);
    if (got != SUCCESS)
        wrong("reading a block: %s", result_name(got));
    DEMAND(memcmp(scratch, block->mirror, block->bytes) == 0);
}
