// Before every source of this folder. A source says how many phases it has and does one part of one of them.
// Buffers and numbers are those that the kernel's description in benches/src/kernels gives.
#include <math.h>
#include <stdint.h>
#include <string.h>

extern const int phases;
void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts);

// Where a part of `count` things begins; `part + 1` gives its end.
static inline int64_t begin(int64_t count, int part, int parts) { return count * part / parts; }

// The most parts that a phase is cut into: for results that each part leaves for the next phase.
#define MAX_PARTS 4096
