// A substitute for the driver library, and a program that loads it by the names in its arguments. `NUMBER` is the result
// of the substitute.
#include <dlfcn.h>
#include <stdio.h>

#ifdef NUMBER
int margay_number(void) {
    return NUMBER;
}
#else
int main(int count, char **names) {
    for (int i = 1; i < count; ++i) {
        void *library = dlopen(names[i], RTLD_NOW);
        int (*number)(void) = library ? (int (*)(void))dlsym(library, "margay_number") : NULL;
        printf("%d ", number ? number() : -1);
        if (library) dlclose(library);
    }
    puts("");
    return 0;
}
#endif
