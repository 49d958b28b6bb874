// A small XPTI framework for tests: the functions that Margay's producer and the test's subscriber call.
//
// It is stricter than real ones. A notification after the end, a use of a released event and a payload without a place
// end the process. It treats identity in one of two ways:
//   without NEW_EVENTS, as release 2025.0: the same payload yields the same event;
//   with NEW_EVENTS, as release 2026.2: the same payload yields a new event with a new ID.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xpti.h"

_Static_assert(offsetof(event, source_id) == 32 && offsetof(event, target_id) == 40, "layout of events");
_Static_assert(offsetof(event, data) == 48 && offsetof(event, user) == 112 && sizeof(event) == 128, "layout of events");
_Static_assert(sizeof(payload) == 80 && sizeof(mem_alloc) == 40 && sizeof(object_data) == 24, "layout");

#ifdef NEW_EVENTS
#define EXTRA_STREAM 1
#else
#define EXTRA_STREAM 0
#endif

static void fail(const char *what) {
    fprintf(stderr, "framework: %s\n", what);
    abort();
}

// A table from texts to numbers. Entries are never removed.
#define BUCKETS 65536
typedef struct entry {
    struct entry *next;
    size_t size;
    uint32_t number;
    uint64_t visits;
    void *value;
    char text[];
} entry;
typedef struct {
    entry *buckets[BUCKETS];
    entry **by_number;
    uint32_t count, capacity;
} table;

static uint32_t hash(const char *text, size_t size) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ (uint8_t)text[i]) * 16777619u;
    return (sum ^ sum >> 15) % BUCKETS;
}

static entry *find(table *t, const char *text, size_t size) {
    entry **bucket = &t->buckets[hash(text, size)];
    for (entry *e = *bucket; e; e = e->next)
        if (e->size == size && !memcmp(e->text, text, size)) return e;
    entry *e = calloc(1, sizeof *e + size + 1);
    memcpy(e->text, text, size);
    e->size = size;
    e->next = *bucket;
    *bucket = e;
    e->number = ++t->count;
    if (t->count >= t->capacity) {
        t->capacity = t->capacity * 2 + 64;
        t->by_number = realloc(t->by_number, t->capacity * sizeof *t->by_number);
    }
    t->by_number[e->number] = e;
    return e;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table strings, objects, sites, streams, events;
static callback callbacks[256][128];
static atomic_bool finished;
static atomic_ulong next_id = 1;
static _Thread_local uint64_t universal;

typedef struct {
    void *library;
    void (*init)(uint32_t, uint32_t, const char *, const char *);
    void (*finish)(const char *);
} subscriber;
static subscriber subscribers[16];
static int subscriber_count;
static bool enabled = true;

bool xptiTraceEnabled(void) { return enabled && subscriber_count > 0; }

static void initialize_stream(const char *name, uint32_t major, uint32_t minor, const char *version) {
    for (int i = 0; i < subscriber_count; i++) subscribers[i].init(major, minor, version, name);
}

void xptiFrameworkInitialize(void) {
    const char *enable = getenv("XPTI_TRACE_ENABLE"), *names = getenv("XPTI_SUBSCRIBERS");
    enabled = !enable || !strcmp(enable, "1") || !strcmp(enable, "true");
    char *list = strdup(names ? names : ""), *rest = list, *name;
    while (enabled && (name = strsep(&rest, ",")) && subscriber_count < 16) {
        subscriber s = {dlopen(name, RTLD_NOW | RTLD_LOCAL), NULL, NULL};
        if (!s.library) continue;
        s.init = (void (*)(uint32_t, uint32_t, const char *, const char *))dlsym(s.library, "xptiTraceInit");
        s.finish = (void (*)(const char *))dlsym(s.library, "xptiTraceFinish");
        if (s.init && s.finish) subscribers[subscriber_count++] = s;
    }
    free(list);
    if (EXTRA_STREAM) initialize_stream("xpti.framework", 1, 0, "test");
}

void xptiFinalize(const char *name) {
    for (int i = 0; i < subscriber_count; i++) subscribers[i].finish(name);
}

void xptiFrameworkFinalize(void) {
    if (atomic_exchange(&finished, true)) fail("ended twice");
}

int32_t xptiInitialize(const char *name, uint32_t major, uint32_t minor, const char *version) {
    if (xptiTraceEnabled()) initialize_stream(name, major, minor, version);
    return SUCCESS;
}

uint8_t xptiRegisterStream(const char *name) {
    pthread_mutex_lock(&lock);
    uint8_t id = (uint8_t)find(&streams, name, strlen(name))->number;
    pthread_mutex_unlock(&lock);
    return id;
}

int32_t xptiRegisterCallback(uint8_t stream, uint16_t point, callback function) {
    if (point >= 128 || callbacks[stream][point]) return DUPLICATE;
    callbacks[stream][point] = function;
    return SUCCESS;
}

bool xptiCheckTraceEnabled(uint8_t stream, uint16_t point) {
    return xptiTraceEnabled() && point < 128 && callbacks[stream][point];
}

uint32_t xptiRegisterString(const char *text, char **copy) {
    pthread_mutex_lock(&lock);
    entry *e = find(&strings, text, strlen(text));
    pthread_mutex_unlock(&lock);
    if (copy) *copy = e->text;
    return e->number;
}

static entry *numbered(table *t, uint32_t number) {
    pthread_mutex_lock(&lock);
    entry *e = number && number <= t->count ? t->by_number[number] : NULL;
    pthread_mutex_unlock(&lock);
    return e;
}

const char *xptiLookupString(uint32_t number) {
    entry *e = numbered(&strings, number);
    return e ? e->text : NULL;
}

int32_t xptiRegisterObject(const char *data, size_t size, uint8_t type) {
    pthread_mutex_lock(&lock);
    entry *e = find(&objects, data, size);
    // As in real frameworks, equal bytes are one value, and the first type stays.
    if (!e->value) e->value = (void *)(uintptr_t)(type + 1);
    pthread_mutex_unlock(&lock);
    return (int32_t)e->number;
}

object_data xptiLookupObject(int32_t number) {
    entry *e = numbered(&objects, (uint32_t)number);
    return e ? (object_data){e->size, e->text, (uint8_t)((uintptr_t)e->value - 1)} : (object_data){0};
}

static event *create(entry *site, const char *name, const payload *place) {
    event *made = calloc(1, sizeof *made);
    made->data = calloc(1, sizeof *place);
    *made->data = *place;
    // The caller's texts may end with the call.
    made->data->name = find(&strings, name, strlen(name))->text;
    made->data->source_file = find(&strings, place->source_file, strlen(place->source_file))->text;
    made->data->uid[0] = site->number;
    made->unique_id = 1000 + events.count;
    char id[24];
    find(&events, id, (size_t)sprintf(id, "%lu", made->unique_id))->value = made;
    return made;
}

event *xptiMakeEvent(const char *name, payload *place, uint16_t type, int32_t activity, uint64_t *instance) {
    if (atomic_load(&finished)) fail("an event after the end");
    if (!name || !*name || !place->source_file || !*place->source_file || !(place->flags & 8))
        fail("a payload without a name or a place");
    if (place->line == 0 || place->line == UINT32_MAX || place->column == 0 || place->column == UINT32_MAX)
        fail("a payload without a line or a column");
    char key[70000];
    int size = snprintf(key, sizeof key, "%s\n%s\n%u\n%u", name, place->source_file, place->line, place->column);
    pthread_mutex_lock(&lock);
    entry *site = find(&sites, key, (size_t)size < sizeof key ? (size_t)size : sizeof key - 1);
    event *made = site->value;
    *instance = ++site->visits;
#ifdef NEW_EVENTS
    made = NULL;
#endif
    if (!made) {
        made = create(site, name, place);
        site->value = made;
    }
    made->instance_id = *instance;
    made->type = type;
    made->activity = (uint16_t)activity;
    pthread_mutex_unlock(&lock);
    return made;
}

event *xptiFindEvent(uint64_t unique_id) {
    char id[24];
    int size = sprintf(id, "%lu", unique_id);
    pthread_mutex_lock(&lock);
    event *found = find(&events, id, (size_t)size)->value;
    pthread_mutex_unlock(&lock);
    return found;
}

void xptiReleaseEvent(event *released) {
    char id[24];
    int size = sprintf(id, "%lu", released->unique_id);
    if (atomic_load(&finished)) fail("a release after the end");
    pthread_mutex_lock(&lock);
    entry *e = find(&events, id, (size_t)size);
    if (!e->value) fail("an event is released twice");
    e->value = NULL;
    // The memory is kept so that a later use is found.
    memset(released, 0xee, sizeof *released);
    pthread_mutex_unlock(&lock);
}

static void check(const event *used) {
    if (used && used->unique_id == 0xeeeeeeeeeeeeeeeeu) fail("a released event is used");
}

int32_t xptiAddMetadata(event *to, const char *key, int32_t value) {
    check(to);
    uint32_t name = xptiRegisterString(key, NULL);
    pthread_mutex_lock(&lock);
    int32_t result = SUCCESS;
    for (metadata_node *n = to->metadata.first; n; n = n->next)
        if (n->key == name) result = DUPLICATE;
    if (result == SUCCESS) {
        metadata_node *n = malloc(sizeof *n);
        *n = (metadata_node){to->metadata.first, name, value};
        to->metadata.first = n;
        to->metadata.count++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

metadata_table *xptiQueryMetadata(event *of) { return &of->metadata; }

const payload *xptiQueryPayload(event *of) { return of->data; }

static bool may_lack_event(uint16_t point) {
    return (point >= 24 && point <= 25) || (point >= 28 && point <= 40) || point == 126;
}

int32_t xptiNotifySubscribers(uint8_t stream, uint16_t point, event *parent, event *object, uint64_t instance,
                              const void *user) {
    if (atomic_load(&finished)) fail("a notification after the end");
    if (!object && !may_lack_event(point)) fail("a notification lacks its event");
    check(parent);
    check(object);
    if (!xptiTraceEnabled()) return FALSE;
    callback function = point < 128 ? callbacks[stream][point] : NULL;
    if (function) function(point, parent, object, instance, user);
    return SUCCESS;
}

uint64_t xptiGetUniqueId(void) { return atomic_fetch_add(&next_id, 1); }

void xptiSetUniversalId(uint64_t id) { universal = id; }

uint64_t xptiGetUniversalId(void) { return universal; }
