// The distances at which rays hit triangles, found with a tree of boxes; each operation is rounded separately. Buffers:
// nodes, triangles (a corner and two edges), rays (origin and direction), distances. Numbers: rays.
#pragma STDC FP_CONTRACT OFF
#define MISS 1e30f

typedef struct {
    float low[3];
    int first; // the first triangle of a leaf, or the first of two neighbouring children
    float high[3];
    int count; // the number of triangles; zero if the node has children
} node;

typedef struct {
    float origin[3], direction[3], inverse[3];
} ray;

const int phases = 1;

static inline float smaller(float a, float b) { return a < b ? a : b; }
static inline float larger(float a, float b) { return a > b ? a : b; }

// Returns the distance to the box, or MISS.
static inline float entry(const node *box, const ray *r, float nearest) {
    float from = 0, to = nearest;
    for (int axis = 0; axis < 3; ++axis) {
        float a = (box->low[axis] - r->origin[axis]) * r->inverse[axis];
        float b = (box->high[axis] - r->origin[axis]) * r->inverse[axis];
        from = larger(from, smaller(a, b));
        to = smaller(to, larger(a, b));
    }
    return from <= to ? from : MISS;
}

static inline float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static inline void cross(const float *a, const float *b, float *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// Returns the distance to the triangle if it is nearer than `nearest`, otherwise `nearest`.
static inline float hit(const float *triangle, const ray *r, float nearest) {
    const float *corner = triangle, *edge = triangle + 3, *other = triangle + 6;
    float p[3], q[3], away[3];
    cross(r->direction, other, p);
    float scale = 1 / dot(edge, p);
    for (int axis = 0; axis < 3; ++axis)
        away[axis] = r->origin[axis] - corner[axis];
    float u = dot(away, p) * scale;
    cross(away, edge, q);
    float v = dot(r->direction, q) * scale, t = dot(other, q) * scale;
    return u >= 0 && v >= 0 && u + v <= 1 && t > 0 && t < nearest ? t : nearest;
}

static float trace(const node *nodes, const float (*triangles)[9], const ray *r) {
    int stack[32], depth = 0, at = 0;
    float nearest = MISS;
    for (;;) {
        const node *here = nodes + at;
        if (here->count > 0) {
            for (int i = 0; i < here->count; ++i)
                nearest = hit(triangles[here->first + i], r, nearest);
        } else {
            int near = here->first, far = near + 1;
            float a = entry(nodes + near, r, nearest), b = entry(nodes + far, r, nearest);
            if (b < a) {
                float swap = a;
                a = b, b = swap;
                near = far, far = here->first;
            }
            if (b < MISS)
                stack[depth++] = far;
            if (a < MISS) {
                at = near;
                continue;
            }
        }
        if (depth == 0)
            return nearest;
        at = stack[--depth];
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float (*rays)[6] = buffers[2];
    float *distances = buffers[3];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i) {
        ray r;
        memcpy(r.origin, rays[i], sizeof r.origin + sizeof r.direction);
        for (int axis = 0; axis < 3; ++axis)
            r.inverse[axis] = 1 / r.direction[axis];
        distances[i] = trace(buffers[0], buffers[1], &r);
    }
}
