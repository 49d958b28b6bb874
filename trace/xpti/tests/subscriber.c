// An XPTI subscriber for tests. The environment variable MARGAY_XPTI_MODE selects what it does:
//   log (default): writes each notification as a line to the file that MARGAY_XPTI_LOG names, and checks the invariants;
//   check: checks the invariants only;
//   collector: registers only on the SYCL streams, as existing tools do, and writes what those read;
//   late: as log, but registers for all but the begins of calls only when the first call begins;
//   empty: registers callbacks that do nothing;
//   none: registers no callback.
// At the end it writes "checked N notifications", and before it a line "violation: ..." for each broken invariant.
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xpti.h"

static uint8_t (*register_stream)(const char *);
static int32_t (*register_callback)(uint8_t, uint16_t, callback);
static const payload *(*query_payload)(event *);
static metadata_table *(*query_metadata)(event *);
static const char *(*lookup_string)(uint32_t);
static object_data (*lookup_object)(int32_t);
static event *(*find_event)(uint64_t);
static uint64_t (*universal_id)(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static bool printing;
static uint64_t notifications, violations, finished_streams;

static void violation(const char *form, ...) {
    va_list args;
    va_start(args, form);
    // One fault can repeat endlessly.
    if (violations++ < 20) {
        fprintf(out, "violation: ");
        vfprintf(out, form, args);
        fprintf(out, "\n");
    }
    va_end(args);
}

// A table from pairs of words to numbers; 0 is the number of an absent pair.
typedef struct cell {
    uint64_t a, b, number;
} cell;
typedef struct {
    cell *cells;
    size_t size, used;
} table;

static cell *slot(table *t, uint64_t a, uint64_t b) {
    size_t at = (a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu) >> 20;
    for (;; at++) {
        cell *c = &t->cells[at & (t->size - 1)];
        if (!c->number || (c->a == a && c->b == b)) return c;
    }
}

static uint64_t *get(table *t, uint64_t a, uint64_t b) {
    if (t->used * 2 >= t->size) {
        table old = *t;
        *t = (table){calloc(old.size ? old.size * 2 : 1024, sizeof(cell)), old.size ? old.size * 2 : 1024, 0};
        for (size_t i = 0; i < old.size; i++)
            // The number that marks a former pair is dropped.
            if (old.cells[i].number > 1) {
                *slot(t, old.cells[i].a, old.cells[i].b) = old.cells[i];
                t->used++;
            }
        free(old.cells);
    }
    cell *c = slot(t, a, b);
    if (!c->number) {
        *c = (cell){a, b, 1};
        t->used++;
    }
    return &c->number;
}

static table event_names, call_names, open_pairs, live, nodes;
static uint64_t event_count, call_count, graphs, open_count;

// The names U1, U2, ... and C1, C2, ... in the order of the first sight.
static uint64_t name_of(table *t, uint64_t id, uint64_t *count) {
    uint64_t *number = get(t, id, 0);
    if (*number == 1) *number = 2 + (*count)++;
    return *number - 1;
}

static uint64_t text_hash(const char *text, uint64_t sum) {
    for (; *text; text++) sum = (sum ^ (uint8_t)*text) * 0x100000001b3u;
    return sum;
}

// What the calling thread has begun and not ended: calls, waits, allocations and releases nest.
static _Thread_local struct {
    uint16_t point;
    uint64_t instance;
} stack[64];
static _Thread_local int depth, open_calls;

static bool is_pair(uint16_t point) {
    return (point >= 10 && point <= 13) || (point >= 18 && point <= 35) || point == 42 || point == 43;
}

static bool nests(uint16_t point) { return (point >= 22 && point <= 23) || (point >= 28 && point <= 35); }

static void check_pair(uint16_t point, event *object, uint64_t instance) {
    uint64_t *open = get(&open_pairs, (uint64_t)(uintptr_t)object << 8 | point >> 1, instance);
    if (point & 1) {
        if (*open < 2) {
            violation("t=%d instance %" PRIu64 " ends without a begin", point, instance);
            return;
        }
        --*open;
        open_count--;
    } else {
        ++*open;
        open_count++;
    }
    if (!nests(point)) return;
    if (!(point & 1)) {
        if (depth < 64) stack[depth].point = point, stack[depth].instance = instance;
        depth++;
    } else if (depth == 0 || stack[--depth].point != point - 1 || stack[depth].instance != instance) {
        violation("t=%d instance %" PRIu64 " is not nested", point, instance);
    }
    if (point == 28) open_calls++;
    if (point == 29) open_calls--;
}

static void check_memory(uint16_t point, const mem_alloc *memory) {
    if (!memory->pointer) return;
    uint64_t *known = get(&live, memory->pointer, 0);
    if (point == 33 && ++*known != 2) violation("%zx is allocated twice", memory->pointer);
    if (point == 35 && --*known != 1) violation("%zx is released, but not allocated", memory->pointer);
}

static void check_node(event *object) {
    const payload *place = query_payload(object);
    char position[64];
    snprintf(position, sizeof position, ":%u:%u", place->line, place->column);
    uint64_t site = text_hash(position, text_hash(place->source_file, text_hash(place->name, 14695981039346656037u)));
    if (++*get(&nodes, site, 0) != 2) violation("a second node %s in %s%s", place->name, place->source_file, position);
    if (!open_calls) violation("the node %s is outside a call", place->name);
    if (object->instance_id != 1) violation("the node %s has the instance %" PRIu64, place->name, object->instance_id);
}

// The event of an operation that ended 1000 operations ago still has its ID.
static void check_former(const event *object) {
    static uint64_t ended[1000], count;
    uint64_t *former = &ended[count++ % 1000];
    if (*former && !find_event(*former)) violation("the event %" PRIu64 " has gone", *former);
    *former = object->unique_id;
}

static void check(uint16_t point, event *object, uint64_t instance, const void *user) {
    notifications++;
    if (finished_streams) violation("t=%d after the end", point);
    if (is_pair(point)) check_pair(point, object, instance);
    if (point == 2 && ++graphs != 1) violation("a second graph");
    if (point == 4) check_node(object);
    if (point == 33 || point == 35) check_memory(point, user);
    if ((point == 10 || point == 11) && universal_id() != object->unique_id) violation("t=%d: the universal ID", point);
    if (point == 11) check_former(object);
    if (point == 6 && (!find_event(object->source_id) || !find_event(object->target_id)))
        violation("an edge between unknown events");
}

// Metadata

static void print_value(const char *key, object_data value) {
    uint64_t number = 0;
    if (value.size <= 8) memcpy(&number, value.data, value.size);
    bool address = !strncmp(key, "copy_", 5) || !strcmp(key, "memory_object");
    switch (value.type) {
    case 0:
        for (size_t i = 0; i < value.size; i++) fprintf(out, "%02x", (uint8_t)value.data[i]);
        break;
    case 1:
        fprintf(out, "%.*s", (int)value.size, value.data);
        break;
    case 5:
        fprintf(out, number ? "true" : "false");
        break;
    default:
        fprintf(out, address ? "0x%" PRIx64 : "%" PRIu64, number);
    }
}

static int by_key(const void *a, const void *b) {
    const metadata_node *const *x = a, *const *y = b;
    return strcmp(lookup_string((*x)->key), lookup_string((*y)->key));
}

static void print_metadata(event *object) {
    const metadata_node *sorted[128];
    size_t count = 0;
    for (metadata_node *n = query_metadata(object)->first; n && count < 128; n = n->next) sorted[count++] = n;
    qsort(sorted, count, sizeof *sorted, by_key);
    for (size_t i = 0; i < count; i++) {
        const char *key = lookup_string(sorted[i]->key);
        fprintf(out, " {%s=", key);
        print_value(key, lookup_object(sorted[i]->value));
        fprintf(out, "}");
    }
}

static const metadata_node *find_metadata(event *object, const char *key) {
    for (metadata_node *n = query_metadata(object)->first; n; n = n->next)
        if (!strcmp(lookup_string(n->key), key)) return n;
    return NULL;
}

// Lines

static void print_user(uint16_t point, const void *user) {
    const function_with_args *call = user;
    const mem_alloc *memory = user;
    if (point == 28 || point == 29) {
        fprintf(out, " fn=%s", call->name);
        if (call->ret) fprintf(out, " ret=%u", *call->ret);
        fprintf(out, " {number=%u}", call->number);
        if (call->args) fprintf(out, " {args=%" PRIu64 "}", *(const uint64_t *)call->args);
    } else if (point >= 32 && point <= 35) {
        fprintf(out, " ptr=%zx size=%zu", memory->pointer, memory->size);
    } else if (user) {
        fprintf(out, " ud=\"%s\"", (const char *)user);
    }
}

static void print_event(uint16_t point, event *object) {
    const payload *place = query_payload(object);
    if (point == 2 || point == 22 || point == 42) fprintf(out, " name=\"%s\"", place->name);
    if (*place->source_file != '<') fprintf(out, " at %s:%u", place->source_file, place->line);
    if (point == 4 || point == 11 || point == 33 || point == 42) print_metadata(object);
    if (point != 6) return;
    uint64_t from = name_of(&event_names, object->source_id, &event_count);
    uint64_t to = name_of(&event_names, object->target_id, &event_count);
    fprintf(out, " U%" PRIu64 "->U%" PRIu64, from, to);
}

static void print(uint16_t point, event *parent, event *object, uint64_t instance, const void *user) {
    fprintf(out, "t=%-3d", point);
    if (object) {
        uint64_t name = name_of(&event_names, object->unique_id, &event_count);
        fprintf(out, " ev=U%" PRIu64 " inst=%" PRIu64, name, instance);
    } else {
        fprintf(out, " ev=-");
        if (instance) fprintf(out, " call=C%" PRIu64, name_of(&call_names, instance, &call_count));
    }
    if (parent) fprintf(out, " parent=U%" PRIu64, name_of(&event_names, parent->unique_id, &event_count));
    print_user(point, user);
    if (object) print_event(point, object);
    fprintf(out, "\n");
}

static bool late;
static uint8_t streams[8];
static int stream_count;

static void on_event(uint16_t point, event *parent, event *object, uint64_t instance, const void *user) {
    if (late && point == 28)
        for (late = false; stream_count > 0; stream_count--)
            for (uint16_t other = 2; other < 128; other++)
                register_callback(streams[stream_count - 1], other, on_event);
    pthread_mutex_lock(&lock);
    check(point, object, instance, user);
    if (printing) print(point, parent, object, instance, user);
    pthread_mutex_unlock(&lock);
}

// What existing collectors read from the SYCL streams.
static void on_sycl(uint16_t point, event *parent, event *object, uint64_t instance, const void *user) {
    (void)parent, (void)instance;
    pthread_mutex_lock(&lock);
    notifications++;
    const metadata_node *kernel = point == 11 ? find_metadata(object, "kernel_name") : NULL;
    const metadata_node *memory = point == 11 ? find_metadata(object, "memory_object") : NULL;
    if (kernel || memory) {
        const char *key = kernel ? "kernel_name" : "memory_object";
        fprintf(out, "task %s=", key);
        print_value(key, lookup_object((kernel ? kernel : memory)->value));
        fprintf(out, "\n");
    }
    if (point == 28) fprintf(out, "call %s\n", ((const function_with_args *)user)->name);
    if (point == 33) fprintf(out, "allocated %zu\n", ((const mem_alloc *)user)->size);
    pthread_mutex_unlock(&lock);
}

static void on_nothing(uint16_t point, event *parent, event *object, uint64_t instance, const void *user) {
    (void)point, (void)parent, (void)object, (void)instance, (void)user;
}

// The framework

static void load_functions(void) {
    void *framework = dlopen(getenv("XPTI_FRAMEWORK_DISPATCHER"), RTLD_NOW | RTLD_NOLOAD);
    if (!framework) abort();
#define LOAD(variable, name) *(void **)&variable = dlsym(framework, name)
    LOAD(register_stream, "xptiRegisterStream");
    LOAD(register_callback, "xptiRegisterCallback");
    LOAD(query_payload, "xptiQueryPayload");
    LOAD(query_metadata, "xptiQueryMetadata");
    LOAD(lookup_string, "xptiLookupString");
    LOAD(lookup_object, "xptiLookupObject");
    LOAD(find_event, "xptiFindEvent");
    LOAD(universal_id, "xptiGetUniversalId");
}

static bool mode_is(const char *mode) {
    const char *set = getenv("MARGAY_XPTI_MODE");
    return !strcmp(set ? set : "log", mode);
}

static bool is_ours(const char *stream) { return !strncmp(stream, "margay", 6); }

void xptiTraceInit(uint32_t major, uint32_t minor, const char *version, const char *stream) {
    if (!out) {
        const char *path = getenv("MARGAY_XPTI_LOG");
        out = path ? fopen(path, "w") : stderr;
        if (!out) abort();
        setvbuf(out, NULL, _IOLBF, 1 << 16);
        load_functions();
    }
    bool collector = mode_is("collector");
    late = mode_is("late");
    printing = mode_is("log") || late;
    if (!strcmp(stream, "xpti.framework") || is_ours(stream) == collector || mode_is("none")) return;
    if (printing) fprintf(out, "init stream=%s %u.%u \"%s\"\n", stream, major, minor, version);
    callback function = collector ? on_sycl : mode_is("empty") ? on_nothing : on_event;
    uint8_t id = register_stream(stream);
    if (late) streams[stream_count++] = id;
    for (uint16_t point = 2; point < 128; point++)
        if (!late || (point == 28 && !strcmp(stream, "margay.call"))) register_callback(id, point, function);
}

void xptiTraceFinish(const char *stream) {
    pthread_mutex_lock(&lock);
    if (is_ours(stream)) finished_streams++;
    if (is_ours(stream) && printing) fprintf(out, "finish stream=%s\n", stream);
    if (!strcmp(stream, "margay")) {
        if (open_count) violation("%" PRIu64 " pairs are open", open_count);
        fprintf(out, "checked %" PRIu64 " notifications\n", notifications);
    }
    pthread_mutex_unlock(&lock);
}
