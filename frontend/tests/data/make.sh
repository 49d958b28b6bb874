#!/bin/sh
# Builds the images that the container tests read, with nvcc and ptxas 13.5 on the path.
# The test program never runs this: the results are checked in.
set -eu
cd "$(dirname "$0")"
for mode in none speed default; do
    nvcc -fatbin -arch=compute_75 -Xfatbin --compress-mode=$mode scale.cu -o scale-$mode.fatbin
done
nvcc -fatbin -lineinfo -maxrregcount=32 -gencode arch=compute_80,code=sm_80 \
    -gencode arch=compute_80,code=compute_80 -gencode arch=compute_120,code=compute_120 \
    scale.cu -o scale-many.fatbin
nvcc -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 scale.cu -o scale-sass.fatbin
nvcc -fatbin -gencode arch=compute_90a,code=compute_90a -gencode arch=compute_80,code=compute_80 \
    scale.cu -o scale-90a.fatbin
nvcc -cubin -arch=sm_80 scale.cu -o scale-sm_80.cubin
nvcc -c -arch=compute_80 scale.cu -o scale-host.o
nvcc -c -rdc=true -arch=compute_80 scale.cu -o scale-rdc.o
# The first container of a program is what linking leaves; its header says how long it is.
nvcc -arch=sm_86 scale.cu -shared -Xcompiler -fPIC -o scale.so
objcopy -O binary --only-section=.nv_fatbin scale.so scale.section
head -c $((16 + $(od -An -tu8 -j8 -N8 scale.section))) scale.section > linked-stub.fatbin
rm scale.so scale.section
for file in *.o; do strip --strip-debug "$file"; done
