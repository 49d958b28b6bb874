// The part of XPTI's C interface that the test's framework and subscriber share. 64-bit platforms only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name, *stack_trace, *source_file;
    uint32_t line, column;
    const void *code;
    uint64_t internal, flags, uid[3];
} payload;

// A node of a table of metadata. The table of real frameworks is a std::unordered_map of libstdc++, whose elements form
// a list. Its layout is part of libstdc++'s binary interface.
typedef struct metadata_node {
    struct metadata_node *next;
    uint32_t key;
    int32_t value;
} metadata_node;

typedef struct {
    void *buckets;
    size_t bucket_count;
    metadata_node *first;
    size_t count;
    uint64_t other[3];
} metadata_table;

typedef struct {
    uint64_t unique_id, data_id, instance_id;
    uint16_t type, activity;
    uint32_t unused;
    uint64_t source_id, target_id;
    payload *data;
    metadata_table metadata;
    void *user;
    uint64_t flags;
} event;

typedef struct {
    uint32_t number;
    const char *name;
    const void *args;
    const uint32_t *ret;
    const void *user;
} function_with_args;

typedef struct {
    size_t object, pointer, size, guard_size;
    const void *reserved;
} mem_alloc;

typedef struct {
    size_t size;
    const char *data;
    uint8_t type;
} object_data;

typedef void (*callback)(uint16_t point, event *parent, event *object, uint64_t instance, const void *user);

enum { SUCCESS = 0, FALSE = 1, DUPLICATE = (int)0x80004003, INVALID = (int)0x80004006 };
