// Operations on virtual memory: reserved address ranges, physical allocations, mappings and access rights. All sizes
// are small multiples of a granule. The model stores the first bytes of each granule.
#pragma once

#include "copies.h"

typedef unsigned long long Handle;
typedef struct {
    int type, id;
} Location;
typedef struct {
    int type, handles;
    Location location;
    void *windows;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} Properties;
typedef struct {
    Location location;
    int flags;
} Access;

CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
CUresult cuMemRelease(Handle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t);
CUresult cuMemGetAccess(unsigned long long *, const Location *, CUdeviceptr);
CUresult cuMemRetainAllocationHandle(Handle *, void *);

enum { RANGES = 2, PHYSICALS = 4, SLOTS = 6, KNOWN = 32, BOTH = 3 };
static const size_t GRANULE = 2 << 20;

typedef struct {
    Handle handle;
    State state;   // GONE: all handles are released; mappings still keep the bytes.
    int uses, device, granules;
    unsigned char bytes[3][KNOWN];
} Physical;

typedef struct {
    CUdeviceptr at;
    int granules; // 0 if the range is not reserved.
    // For each granule of the range: the mapped physical allocation (-1: none), which of its granules is mapped, the
    // first granule of the mapping, and the access rights.
    int physical[SLOTS], part[SLOTS], first[SLOTS], access[SLOTS];
} Range;

static Range ranges[RANGES];
static Physical physicals[PHYSICALS];

static int is_mapped(int at) {
    for (int i = 0; i < RANGES; ++i)
        for (int j = 0; j < ranges[i].granules; ++j)
            if (ranges[i].physical[j] == at)
                return 1;
    return 0;
}

static void reserve(void) {
    int at = PICK(ranges, RANGES, ranges[at].granules == 0), granules = 1 + (int)below(SLOTS);
    if (at < 0)
        return;
    size_t odd = one_in(10) ? 1 + below(1000) : 0, bytes = one_in(12) ? 0 : granules * GRANULE + odd;
    size_t alignment = one_in(8) ? 3 * GRANULE : one_in(2) ? 0 : 4 * GRANULE;
    unsigned long long flags = one_in(12);
    CUdeviceptr base = 0;
    Problems problems = {.count = 0};
    problem(&problems, odd || bytes == 0 || flags || alignment == 3 * GRANULE, INVALID_VALUE);
    if (!JUDGE(cuMemAddressReserve(&base, bytes, alignment, 0, flags), &problems))
        return;
    DEMAND(base != 0 && base % (alignment ? alignment : GRANULE) == 0 && live_block(base) < 0);
    ranges[at].at = base;
    ranges[at].granules = granules;
    memset(ranges[at].physical, -1, sizeof ranges[at].physical);
}

static void unreserve(void) {
    int at = PICK(ranges, RANGES, ranges[at].granules > 0), used = 0, less = one_in(6);
    if (at < 0)
        return;
    for (int i = 0; i < ranges[at].granules; ++i)
        used |= ranges[at].physical[i] >= 0;
    Problems problems = {.count = 0};
    problem(&problems, used || less, INVALID_VALUE);
    size_t bytes = (size_t)(ranges[at].granules - less) * GRANULE;
    if (JUDGE(cuMemAddressFree(ranges[at].at, bytes), &problems))
        ranges[at].granules = 0;
}

static void create_physical(void) {
    int at = PICK(physicals, PHYSICALS, physicals[at].state != LIVE && !is_mapped(at)), granules = 1 + (int)below(3);
    if (at < 0)
        return;
    int device = one_in(8) ? 7 : (int)below(PRIMARIES), type = one_in(10) ? 9 : 1;
    size_t bytes = one_in(10) ? 4096 : one_in(12) ? (size_t)1 << 50 : granules * GRANULE;
    Properties props = {.type = type, .location = {1, device}};
    Handle handle = 0;
    Problems problems = {.count = 0};
    problem(&problems, bytes == 4096 || type == 9, INVALID_VALUE);
    problem(&problems, device == 7, INVALID_DEVICE);
    problem(&problems, bytes == (size_t)1 << 50, OUT_OF_MEMORY);
    if (!JUDGE(cuMemCreate(&handle, bytes, &props, 0), &problems))
        return;
    physicals[at] = (Physical){handle, LIVE, 1, device, granules, {{0}}};
}

static int some_physical(void) {
    return PICK(physicals, PHYSICALS, physicals[at].state != UNMADE);
}

static void release_physical(void) {
    int at = some_physical();
    if (at < 0)
        return;
    Physical *physical = &physicals[at];
    Problems problems = {.count = 0};
    problem(&problems, physical->state == GONE, INVALID_VALUE);
    if (JUDGE(cuMemRelease(physical->handle), &problems) && --physical->uses == 0)
        physical->state = GONE;
}

static void map(void) {
    int range = PICK(ranges, RANGES, ranges[at].granules > 0), at = some_physical();
    if (range < 0 || at < 0)
        return;
    Range *r = &ranges[range];
    int first = (int)below((unsigned)r->granules), granules = one_in(8) ? 4 : 1 + (int)below((unsigned)physicals[at].granules);
    int offset = one_in(10), odd = one_in(10) ? 512 : 0, busy = 0;
    for (int i = first; i < first + granules && i < r->granules; ++i)
        busy |= r->physical[i] >= 0;
    Problems problems = {.count = 0};
    problem(&problems, physicals[at].state == GONE || busy || odd || offset, INVALID_VALUE);
    problem(&problems, granules > physicals[at].granules || first + granules > r->granules, INVALID_VALUE);
    if (!JUDGE(cuMemMap(r->at + first * GRANULE + odd, granules * GRANULE, offset * GRANULE, physicals[at].handle, 0),
               &problems))
        return;
    for (int i = 0; i < granules; ++i) {
        r->physical[first + i] = at;
        r->part[first + i] = i;
        r->first[first + i] = first;
        r->access[first + i] = 0;
    }
}

// Returns whether the granules are mapped and consist of whole mappings.
static int is_whole(const Range *r, int first, int count) {
    for (int i = first; i < first + count; ++i)
        if (i >= r->granules || r->physical[i] < 0)
            return 0;
    int last = first + count;
    return r->first[first] == first && (last == r->granules || r->physical[last] < 0 || r->first[last] == last);
}

// Chooses granules of a range, mostly those of whole mappings. Returns the index of the range, or -1.
static int some_granules(int *first, int *count) {
    int at = PICK(ranges, RANGES, ranges[at].granules > 0);
    if (at < 0)
        return at;
    for (int attempt = 0; attempt < 6; ++attempt) {
        *first = (int)below((unsigned)ranges[at].granules);
        *count = 1 + (int)below((unsigned)(ranges[at].granules - *first));
        if (is_whole(&ranges[at], *first, *count))
            break;
    }
    return at;
}

static void unmap(void) {
    int first, count, at = some_granules(&first, &count);
    if (at < 0)
        return;
    Problems problems = {.count = 0};
    problem(&problems, !is_whole(&ranges[at], first, count), INVALID_VALUE);
    if (JUDGE(cuMemUnmap(ranges[at].at + first * GRANULE, count * GRANULE), &problems))
        for (int i = first; i < first + count; ++i)
            ranges[at].physical[i] = -1;
}

static void set_access(void) {
    int first, count, at = some_granules(&first, &count), flags = one_in(8) ? 2 : one_in(3) ? 0 : BOTH;
    if (at < 0)
        return;
    Range *r = &ranges[at];
    int holes = 0;
    for (int i = first; i < first + count; ++i)
        holes |= r->physical[i] < 0;
    if (!holes && !is_whole(r, first, count))
        return; // The result for a part of a mapping is not specified.
    int device = one_in(10) ? 9 : 0;
    Access access = {{1, device}, flags};
    Problems problems = {.count = 0};
    problem(&problems, holes || flags == 2, INVALID_VALUE);
    problem(&problems, device == 9, INVALID_DEVICE);
    if (JUDGE(cuMemSetAccess(r->at + first * GRANULE, count * GRANULE, &access, 1), &problems))
        for (int i = first; i < first + count; ++i)
            r->access[i] = flags;
}

static void ask_access(void) {
    int at = PICK(ranges, RANGES, ranges[at].granules > 0);
    if (at < 0)
        return;
    Range *r = &ranges[at];
    int i = (int)below((unsigned)r->granules);
    unsigned long long flags = 77;
    Location location = {1, 0};
    CUdeviceptr address = r->at + i * GRANULE + below(1000);
    Problems problems = {.count = 0};
    problem(&problems, r->physical[i] < 0, INVALID_VALUE);
    if (JUDGE(cuMemGetAccess(&flags, &location, address), &problems))
        DEMAND((int)flags == r->access[i]);
    Handle handle = 0;
    if (!JUDGE(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address), &problems))
        return;
    Physical *physical = &physicals[r->physical[i]];
    DEMAND(handle == physical->handle);
    physical->state = LIVE; // A mapped allocation can be retained after its last release.
    ++physical->uses;
}

// Copies the first bytes of a granule from or to the host.
static void copy_granule(void) {
    int at = PICK(ranges, RANGES, ranges[at].granules > 0), in = one_in(2);
    if (at < 0)
        return;
    Range *r = &ranges[at];
    int i = (int)below((unsigned)r->granules), open = r->physical[i] >= 0 && r->access[i] == BOTH;
    Problems problems = needs_context();
    problem(&problems, !open, INVALID_VALUE);
    some_bytes(KNOWN);
    unsigned char *known = open ? physicals[r->physical[i]].bytes[r->part[i]] : NULL;
    if (in) {
        if (JUDGE(cuMemcpyHtoD_v2(r->at + i * GRANULE, scratch, KNOWN), &problems))
            memcpy(known, scratch, KNOWN);
    } else if (JUDGE(cuMemcpyDtoH_v2(scratch, r->at + i * GRANULE, KNOWN), &problems)) {
        DEMAND(memcmp(scratch, known, KNOWN) == 0);
    }
}

// Reads across the border of two neighbouring granules, which belong to one mapping or to two mappings.
static void copy_over_border(void) {
    int at = PICK(ranges, RANGES, ranges[at].granules > 1);
    if (at < 0)
        return;
    Range *r = &ranges[at];
    int i = (int)below((unsigned)r->granules - 1), open = 1;
    for (int j = i; j < i + 2; ++j)
        open &= r->physical[j] >= 0 && r->access[j] == BOTH;
    static unsigned char border[KNOWN + 8];
    CUdeviceptr address = r->at + (i + 1) * GRANULE - 8;
    Problems problems = needs_context();
    problem(&problems, !open, INVALID_VALUE);
    if (JUDGE(cuMemcpyDtoH_v2(border, address, sizeof border), &problems))
        DEMAND(memcmp(border + 8, physicals[r->physical[i + 1]].bytes[r->part[i + 1]], KNOWN) == 0);
}

// Frees everything that a random program has left. Every call must succeed.
static void end_ranges(void) {
    Problems none = {.count = 0};
    for (int i = 0; i < RANGES; ++i) {
        for (int j = 0; j < ranges[i].granules; ++j) {
            int count = 1;
            if (ranges[i].physical[j] < 0)
                continue;
            while (!is_whole(&ranges[i], j, count))
                ++count;
            JUDGE(cuMemUnmap(ranges[i].at + j * GRANULE, count * GRANULE), &none);
            for (int k = j; k < j + count; ++k)
                ranges[i].physical[k] = -1;
        }
        if (ranges[i].granules)
            JUDGE(cuMemAddressFree(ranges[i].at, ranges[i].granules * GRANULE), &none);
        ranges[i].granules = 0;
    }
    for (int i = 0; i < PHYSICALS; ++i) {
        for (; physicals[i].state == LIVE && physicals[i].uses > 0; --physicals[i].uses)
            JUDGE(cuMemRelease(physicals[i].handle), &none);
        physicals[i].state = UNMADE;
    }
}
