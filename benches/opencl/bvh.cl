// The distances at which rays hit triangles, found with a tree of boxes, one ray for each work-item. Products and sums
// are rounded separately.
#pragma OPENCL FP_CONTRACT OFF
#define MISS 1e30f

typedef struct {
    float low[3];
    int first;
    float high[3];
    int count;
} Node;

typedef struct {
    float corner[3], edge[3], other[3];
} Triangle;

typedef struct {
    float origin[3], direction[3];
} Ray;

static float entry(global const Node *box, const Ray *ray, const float *inverse, float nearest) {
    float from = 0, to = nearest;
    for (int axis = 0; axis < 3; ++axis) {
        float a = (box->low[axis] - ray->origin[axis]) * inverse[axis];
        float b = (box->high[axis] - ray->origin[axis]) * inverse[axis];
        from = fmax(from, fmin(a, b));
        to = fmin(to, fmax(a, b));
    }
    return from <= to ? from : MISS;
}

static float dot3(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross3(const float *a, const float *b, float *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static float hit(global const Triangle *from, const Ray *ray, float nearest) {
    Triangle triangle = *from;
    float p[3], q[3], away[3];
    cross3(ray->direction, triangle.other, p);
    float scale = 1 / dot3(triangle.edge, p);
    for (int axis = 0; axis < 3; ++axis)
        away[axis] = ray->origin[axis] - triangle.corner[axis];
    float u = dot3(away, p) * scale;
    cross3(away, triangle.edge, q);
    float v = dot3(ray->direction, q) * scale, t = dot3(triangle.other, q) * scale;
    return u >= 0 && v >= 0 && u + v <= 1 && t > 0 && t < nearest ? t : nearest;
}

kernel void bvh_trace(global const Node *nodes, global const Triangle *triangles, global const Ray *rays,
                      global float *distances, int n) {
    int i = get_global_id(0);
    if (i >= n)
        return;
    Ray ray = rays[i];
    float inverse[3];
    for (int axis = 0; axis < 3; ++axis)
        inverse[axis] = 1 / ray.direction[axis];
    int stack[32], depth = 0, at = 0;
    float nearest = MISS;
    while (true) {
        int first = nodes[at].first, count = nodes[at].count;
        if (count > 0) {
            for (int k = 0; k < count; ++k)
                nearest = hit(triangles + first + k, &ray, nearest);
        } else {
            int near = first, far = first + 1;
            float a = entry(nodes + near, &ray, inverse, nearest), b = entry(nodes + far, &ray, inverse, nearest);
            if (b < a) {
                float swap = a;
                a = b, b = swap;
                near = first + 1, far = first;
            }
            if (b < MISS)
                stack[depth++] = far;
            if (a < MISS) {
                at = near;
                continue;
            }
        }
        if (depth == 0)
            break;
        at = stack[--depth];
    }
    distances[i] = nearest;
}
