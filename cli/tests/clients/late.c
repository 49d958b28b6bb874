/* Loads the libraries of its arguments, and calls `main` of the last one. */

#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **paths) {
    void *library = NULL;
    for (int at = 1; at < count; at++) {
        library = dlopen(paths[at], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            puts(dlerror());
            return 1;
        }
    }
    int (*run)(void) = (int (*)(void))dlsym(library, "main");
    return run ? run() : 1;
}
