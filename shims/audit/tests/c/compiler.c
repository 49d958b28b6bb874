/* A replacement for NVRTC: it has PTX for virtual architectures, and also a cubin for real ones. */
#include <stdio.h>
#include <string.h>

static char arch[64];

int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    (void)program;
    for (int i = 0; i < count; i++) {
        if (!strcmp(options[i], "--refuse-virtual")) {
            for (int j = 0; j < count; j++)
                if (strstr(options[j], "compute_")) return 5;
        }
        if (!strncmp(options[i], "-arch=", 6)) snprintf(arch, sizeof arch, "%s", options[i] + 6);
    }
    return 0;
}
int nvrtcGetPTXSize(void *program, size_t *size) { (void)program; return *size = strlen(arch) + 5, 0; }
int nvrtcGetPTX(void *program, char *out) { (void)program; return sprintf(out, "ptx %s", arch), 0; }
int nvrtcGetCUBINSize(void *program, size_t *size) { (void)program; return *size = strncmp(arch, "sm_", 3) ? 0 : 6, 0; }
int nvrtcGetCUBIN(void *program, char *out) { (void)program; if (!strncmp(arch, "sm_", 3)) strcpy(out, "cubin"); return 0; }
