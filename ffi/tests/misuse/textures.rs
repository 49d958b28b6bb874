//! Tests wrong calls of the driver API's functions for arrays, textures, surfaces, and texture and
//! surface references.

use super::*;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    size: [usize; 3],
    format: u32,
    channels: u32,
    flags: u32,
}

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Resource {
    kind: u32,
    content: [u64; 16],
    flags: u32,
}

/// `CUDA_TEXTURE_DESC` as an array of words.
type Texture = [u32; 26];

const FLOAT: u32 = 0x20;
const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
const CUBE: u32 = 4;
const GATHER: u32 = 8;
const SPARSE: u32 = 0x40;

fn plane(size: [usize; 3], flags: u32) -> Descriptor {
    Descriptor {
        size,
        format: FLOAT,
        channels: 1,
        flags,
    }
}

fn array(descriptor: Descriptor) -> usize {
    let (mut handle, mut descriptor) = (0usize, descriptor);
    let call = [address(&mut handle), address(&mut descriptor)];
    assert_eq!(driver().call("cuArray3DCreate_v2", &call), 0);
    handle
}

#[test]
fn arrays() {
    with_context();
    let mut check = Checker::new();
    let mut out = 0usize;
    let out = address(&mut out);
    let good = plane([8, 4, 0], 0);
    let bad = [
        plane([0, 4, 0], 0),
        plane([8, 0, 4], 0),
        plane([8, 4, 0], LAYERED),
        plane([8, 4, 6], CUBE),
        plane([8, 8, 5], CUBE),
        plane([8, 8, 8], CUBE | LAYERED),
        plane([8, 0, 0], GATHER),
        plane([8, 8, 8], GATHER),
        plane([8, 8, 0], 0x8000),
        plane([1 << 18, 0, 0], 0),
        plane([8, 1 << 17, 0], 0),
        plane([8, 8, 4096], LAYERED),
        plane([1 << 16, 0, 0], SURFACE),
        plane([usize::MAX, usize::MAX, usize::MAX], 0),
        Descriptor {
            channels: 3,
            ..good
        },
        Descriptor {
            channels: 0,
            ..good
        },
        Descriptor { format: 0, ..good },
        // The formats NV12 and BC1.
        Descriptor {
            format: 0xb0,
            channels: 3,
            ..good
        },
        Descriptor {
            format: 0x91,
            channels: 4,
            ..good
        },
    ];
    for mut descriptor in bad {
        let descriptor = address(&mut descriptor);
        check.expect("cuArray3DCreate_v2", &[out, descriptor], INVALID_VALUE);
        check.expect(
            "cuMipmappedArrayCreate",
            &[out, descriptor, 1],
            INVALID_VALUE,
        );
    }
    let mut good = good;
    let good = address(&mut good);
    check.expect("cuArray3DCreate_v2", &[0, good], INVALID_VALUE);
    check.expect("cuArray3DCreate_v2", &[out, 0], INVALID_VALUE);
    check.expect("cuArrayCreate_v2", &[0, good], INVALID_VALUE);
    check.expect("cuArrayCreate_v2", &[out, 0], INVALID_VALUE);
    check.expect("cuMipmappedArrayCreate", &[0, good, 1], INVALID_VALUE);
    check.expect("cuMipmappedArrayCreate", &[out, 0, 1], INVALID_VALUE);
    check.expect("cuMipmappedArrayCreate", &[out, good, 0], INVALID_VALUE);
    let mut place = [0u64; 16];
    let place = address(&mut place);
    let handle = array(plane([8, 4, 0], 0));
    for name in ["cuArrayGetDescriptor_v2", "cuArray3DGetDescriptor_v2"] {
        check.expect(name, &[0, handle], INVALID_VALUE);
        check.expect(name, &[place, 0], INVALID_HANDLE);
        check.expect(name, &[place, BOGUS], INVALID_HANDLE);
    }
    check.expect(
        "cuArrayGetSparseProperties",
        &[place, handle],
        INVALID_VALUE,
    );
    check.expect(
        "cuArrayGetMemoryRequirements",
        &[0, handle, 0],
        INVALID_VALUE,
    );
    check.expect(
        "cuArrayGetMemoryRequirements",
        &[place, BOGUS, 0],
        INVALID_VALUE,
    );
    check.expect(
        "cuMipmappedArrayGetMemoryRequirements",
        &[place, 0, 0],
        INVALID_VALUE,
    );
    check.expect(
        "cuMipmappedArrayGetSparseProperties",
        &[place, 0],
        INVALID_VALUE,
    );
    check.expect("cuArrayGetPlane", &[out, handle, 0], INVALID_VALUE);
    check.expect("cuArrayGetPlane", &[out, BOGUS, 0], INVALID_HANDLE);
    check.expect("cuArrayDestroy", &[0], INVALID_HANDLE);
    check.expect("cuArrayDestroy", &[BOGUS], INVALID_HANDLE);
    check.expect("cuMipmappedArrayDestroy", &[handle], INVALID_HANDLE);
    check.expect(
        "cuMipmappedArrayGetLevel",
        &[place, handle, 0],
        INVALID_HANDLE,
    );
    let mut mipmaps = 0usize;
    let made = [address(&mut mipmaps), good, 3];
    assert_eq!(driver().call("cuMipmappedArrayCreate", &made), 0);
    check.expect("cuMipmappedArrayGetLevel", &[0, mipmaps, 0], INVALID_VALUE);
    check.expect(
        "cuMipmappedArrayGetLevel",
        &[place, mipmaps, 3],
        INVALID_VALUE,
    );
    let mut level = 0usize;
    let found = [address(&mut level), mipmaps, 2];
    assert_eq!(driver().call("cuMipmappedArrayGetLevel", &found), 0);
    check.expect("cuArrayDestroy", &[level], INVALID_HANDLE);
    assert_eq!(driver().call("cuMipmappedArrayDestroy", &[mipmaps]), 0);
    check.expect("cuMipmappedArrayDestroy", &[mipmaps], INVALID_HANDLE);
    check.expect("cuArray3DGetDescriptor_v2", &[place, level], INVALID_HANDLE);
    assert_eq!(driver().call("cuArrayDestroy", &[handle]), 0);
    check.expect("cuArrayDestroy", &[handle], INVALID_HANDLE);
    check.finish();
    let mut sparse = plane([64, 64, 0], SPARSE);
    let call = [out, address(&mut sparse)];
    assert_eq!(driver().call("cuArray3DCreate_v2", &call), NOT_SUPPORTED);
}

#[test]
fn copies_of_arrays() {
    with_context();
    let mut check = Checker::new();
    let handle = array(plane([8, 4, 0], 0));
    let mut host = [0u8; 256];
    let host = address(&mut host);
    let memory = device_memory(256);
    for offset in [0, 1, 128] {
        let bytes = 129 - offset;
        check.expect(
            "cuMemcpyHtoA_v2",
            &[handle, offset, host, bytes],
            INVALID_VALUE,
        );
        check.expect(
            "cuMemcpyAtoH_v2",
            &[host, handle, offset, bytes],
            INVALID_VALUE,
        );
        check.expect(
            "cuMemcpyDtoA_v2",
            &[handle, offset, memory, bytes],
            INVALID_VALUE,
        );
        check.expect(
            "cuMemcpyAtoD_v2",
            &[memory, handle, offset, bytes],
            INVALID_VALUE,
        );
        check.expect(
            "cuMemcpyHtoAAsync_v2",
            &[handle, offset, host, bytes, 0],
            INVALID_VALUE,
        );
        check.expect(
            "cuMemcpyAtoHAsync_v2",
            &[host, handle, offset, bytes, 0],
            INVALID_VALUE,
        );
        let between = [handle, 0, handle, offset, bytes];
        check.expect("cuMemcpyAtoA_v2", &between, INVALID_VALUE);
    }
    check.expect("cuMemcpyHtoA_v2", &[0, 0, host, 4], INVALID_VALUE);
    check.expect("cuMemcpyHtoA_v2", &[handle, 0, 0, 4], INVALID_VALUE);
    check.expect("cuMemcpyAtoH_v2", &[0, handle, 0, 4], INVALID_VALUE);
    check.expect(
        "cuMemcpyHtoA_v2",
        &[handle, usize::MAX, host, 4],
        INVALID_VALUE,
    );
    check.expect("cuMemcpy3DPeer", &[0], INVALID_VALUE);
    check.expect("cuMemcpy3DPeerAsync", &[0, 0], INVALID_VALUE);
    // A `CUDA_MEMCPY2D` from host memory to the array, with the given position and size.
    let rectangle = |x: usize, y: usize, width: usize, height: usize, array: usize| {
        let mut words = [0usize; 16];
        words[2] = 1;
        words[3] = host;
        words[6] = 64;
        words[7] = x;
        words[8] = y;
        words[9] = 3;
        words[12] = array;
        words[14] = width;
        words[15] = height;
        words
    };
    for mut copy in [
        rectangle(0, 0, 36, 1, handle),
        rectangle(0, 0, 32, 5, handle),
        rectangle(4, 0, 32, 1, handle),
        rectangle(0, 4, 32, 1, handle),
        rectangle(2, 0, 4, 1, handle),
        rectangle(0, 0, 6, 1, handle),
        rectangle(0, 0, 4, 1, 0),
        rectangle(0, 0, 4, 1, BOGUS),
        rectangle(usize::MAX, 0, 4, 1, handle),
    ] {
        let copy = address(&mut copy);
        check.expect("cuMemcpy2D_v2", &[copy], INVALID_VALUE);
        check.expect("cuMemcpy2DUnaligned_v2", &[copy], INVALID_VALUE);
        check.expect("cuMemcpy2DAsync_v2", &[copy, 0], INVALID_VALUE);
    }
    let mut fits = rectangle(4, 3, 28, 1, handle);
    assert_eq!(driver().call("cuMemcpy2D_v2", &[address(&mut fits)]), 0);
    check.finish();
}

/// Returns a resource descriptor of this kind whose union begins with `words`: a handle, or an
/// address followed by format, number of channels and sizes.
fn resource(kind: u32, words: &[u64]) -> Resource {
    let mut content = [0; 16];
    content[..words.len()].copy_from_slice(words);
    Resource {
        kind,
        content,
        flags: 0,
    }
}

#[test]
fn objects() {
    with_context();
    let mut check = Checker::new();
    let mut out = 0u64;
    let place = address(&mut out);
    let handle = array(plane([8, 4, 0], 0)) as u64;
    let memory = device_memory(4096) as u64;
    let float = u64::from(FLOAT) | 1 << 32;
    let three = u64::from(FLOAT) | 3 << 32;
    let mut texture: Texture = [0; 26];
    let plain = address(&mut texture);
    let create = "cuTexObjectCreate";
    let mut good = resource(0, &[handle]);
    let good = address(&mut good);
    check.expect(create, &[0, good, plain, 0], INVALID_VALUE);
    check.expect(create, &[place, 0, plain, 0], INVALID_VALUE);
    check.expect(create, &[place, good, 0, 0], INVALID_VALUE);
    for mut wrong in [
        resource(0, &[0]),
        resource(0, &[BOGUS as u64]),
        resource(1, &[handle]),
        resource(4, &[handle]),
        Resource {
            flags: 1,
            ..resource(0, &[handle])
        },
        resource(2, &[0, float, 64]),
        resource(2, &[memory, three, 64]),
        resource(2, &[memory + 4, float, 64]),
        resource(2, &[memory, float, 0]),
        resource(2, &[memory, float, 1 << 40]),
        resource(2, &[memory, float, u64::MAX]),
        resource(3, &[memory, float, 16, 4, 60]),
        resource(3, &[memory, float, 16, 4, 33]),
        resource(3, &[memory, float, 16, 0, 64]),
        resource(3, &[memory, float, 16, 1000, 64]),
        resource(3, &[memory, float, u64::MAX, u64::MAX, !31]),
    ] {
        check.expect(
            create,
            &[place, address(&mut wrong), plain, 0],
            INVALID_VALUE,
        );
    }
    // Each pair contains the index of a word and a wrong value for it: address modes, filters and flags.
    for (word, value) in [(0, 4), (2, 9), (3, 2), (6, 2), (4, 0x100), (4, 4)] {
        let mut wrong = texture;
        wrong[word] = value;
        check.expect(
            create,
            &[place, good, address(&mut wrong), 0],
            INVALID_VALUE,
        );
    }
    // Returns a view descriptor with a format, width, last level and layers.
    let view = |format: u64, width: u64, last_level: u64, layers: u64| {
        let mut words = [0u64; 14];
        words[0] = format;
        words[1] = width;
        words[2] = 4;
        words[4] = last_level << 32;
        words[5] = layers;
        words
    };
    for mut wrong in [
        view(0x01, 8, 0, 0),
        view(0x99, 8, 0, 0),
        view(0, 7, 0, 0),
        view(0, 8, 1, 0),
        view(0, 8, 0, 1 << 32),
        view(0, 8, 0, 1),
    ] {
        check.expect(
            create,
            &[place, good, plain, address(&mut wrong)],
            INVALID_VALUE,
        );
    }
    let mut whole = view(0x0d, 8, 0, 0);
    let call = [place, good, plain, address(&mut whole)];
    assert_eq!(driver().call(create, &call), 0, "as unsigned integers");
    let object = out as usize;
    let mut room = [0u64; 32];
    let room = address(&mut room);
    for name in [
        "cuTexObjectGetResourceDesc",
        "cuTexObjectGetTextureDesc",
        "cuTexObjectGetResourceViewDesc",
    ] {
        assert_eq!(driver().call(name, &[room, object]), 0);
        check.expect(name, &[0, object], INVALID_VALUE);
        check.expect(name, &[room, 0], INVALID_VALUE);
        check.expect(name, &[room, BOGUS], INVALID_VALUE);
    }
    assert_eq!(driver().call("cuTexObjectDestroy", &[object]), 0);
    check.expect("cuTexObjectDestroy", &[object], INVALID_VALUE);
    check.expect("cuTexObjectDestroy", &[BOGUS], INVALID_VALUE);
    assert_eq!(driver().call(create, &[place, good, plain, 0]), 0);
    let without_view = out as usize;
    let name = "cuTexObjectGetResourceViewDesc";
    check.expect(name, &[room, without_view], INVALID_VALUE);

    let create = "cuSurfObjectCreate";
    check.expect(create, &[place, good], INVALID_VALUE);
    check.expect(create, &[0, good], INVALID_VALUE);
    check.expect(create, &[place, 0], INVALID_VALUE);
    let mut linear = resource(2, &[memory, float, 64]);
    check.expect(create, &[place, address(&mut linear)], INVALID_VALUE);
    let mut stored = resource(0, &[array(plane([8, 4, 0], SURFACE)) as u64]);
    let call = [place, address(&mut stored)];
    assert_eq!(driver().call(create, &call), 0);
    let surface = out as usize;
    check.expect("cuSurfObjectGetResourceDesc", &[0, surface], INVALID_VALUE);
    check.expect(
        "cuSurfObjectGetResourceDesc",
        &[room, object],
        INVALID_VALUE,
    );
    assert_eq!(driver().call("cuSurfObjectDestroy", &[surface]), 0);
    check.expect("cuSurfObjectDestroy", &[surface], INVALID_VALUE);
    check.finish();
}

/// A module with a texture reference and a surface reference.
const REFERENCES: &std::ffi::CStr = c".version 8.0
.target sm_80
.address_size 64
.visible .global .texref image;
.visible .global .surfref plane;
.visible .global .u32 plain;
.visible .entry kernel() { ret; }";

#[test]
fn references() {
    with_context();
    let driver = driver();
    let mut check = Checker::new();
    let (mut module, mut texture, mut surface, mut kernel) = (0usize, 0usize, 0usize, 0usize);
    let load = [address(&mut module), REFERENCES.as_ptr() as usize];
    assert_eq!(driver.call("cuModuleLoadData", &load), 0);
    let [image, plane_name, plain] =
        [c"image", c"plane", c"plain"].map(|name| name.as_ptr() as usize);
    let name = c"kernel".as_ptr() as usize;
    assert_eq!(
        driver.call("cuModuleGetFunction", &[address(&mut kernel), module, name]),
        0
    );
    assert_eq!(
        driver.call("cuModuleGetTexRef", &[address(&mut texture), module, image]),
        0
    );
    assert_eq!(
        driver.call(
            "cuModuleGetSurfRef",
            &[address(&mut surface), module, plane_name]
        ),
        0
    );
    let mut again = 0usize;
    assert_eq!(
        driver.call("cuModuleGetTexRef", &[address(&mut again), module, image]),
        0
    );
    assert_eq!(again, texture, "the same handle");
    let mut room = [0u64; 8];
    let room = address(&mut room);
    check.expect("cuModuleGetTexRef", &[0, module, image], INVALID_VALUE);
    check.expect("cuModuleGetTexRef", &[room, module, 0], INVALID_VALUE);
    check.expect("cuModuleGetTexRef", &[room, BOGUS, image], INVALID_VALUE);
    check.expect("cuModuleGetTexRef", &[room, module, plane_name], NOT_FOUND);
    check.expect("cuModuleGetTexRef", &[room, module, plain], NOT_FOUND);
    check.expect("cuModuleGetSurfRef", &[room, module, image], NOT_FOUND);
    check.expect("cuModuleGetGlobal_v2", &[room, 0, module, image], NOT_FOUND);
    check.expect("cuParamSetTexRef", &[kernel, 0, texture], INVALID_VALUE);
    check.expect("cuParamSetTexRef", &[kernel, usize::MAX, 0], INVALID_VALUE);
    assert_eq!(
        driver.call("cuParamSetTexRef", &[kernel, usize::MAX, texture]),
        0
    );

    let handle = array(plane([8, 4, 0], 0));
    let memory = device_memory(4096);
    check.expect("cuTexRefSetArray", &[texture, handle, 0], INVALID_VALUE);
    check.expect("cuTexRefSetArray", &[texture, 0, 1], INVALID_VALUE);
    check.expect("cuTexRefSetArray", &[0, handle, 1], INVALID_VALUE);
    check.expect(
        "cuTexRefSetMipmappedArray",
        &[texture, handle, 1],
        INVALID_VALUE,
    );
    check.expect("cuTexRefGetArray", &[room, texture], INVALID_VALUE);
    assert_eq!(driver.call("cuTexRefSetArray", &[texture, handle, 1]), 0);
    assert_eq!(driver.call("cuTexRefGetArray", &[room, texture]), 0);
    check.expect("cuTexRefGetMipmappedArray", &[room, texture], INVALID_VALUE);
    check.expect("cuTexRefGetAddress_v2", &[room, texture], INVALID_VALUE);
    check.expect(
        "cuTexRefSetAddress_v2",
        &[0, texture, memory + 4, 64],
        INVALID_VALUE,
    );
    check.expect(
        "cuTexRefSetAddress_v2",
        &[room, texture, 0, 64],
        INVALID_VALUE,
    );
    check.expect(
        "cuTexRefSetAddress_v2",
        &[room, texture, memory, 1 << 40],
        INVALID_VALUE,
    );
    check.expect(
        "cuTexRefSetAddress_v2",
        &[room, texture, memory, usize::MAX],
        INVALID_VALUE,
    );
    let mut offset = 0usize;
    let call = [address(&mut offset), texture, memory + 12, 64];
    assert_eq!(driver.call("cuTexRefSetAddress_v2", &call), 0);
    assert_eq!(offset, 12);
    check.expect(
        "cuTexRefSetAddress2D_v3",
        &[texture, 0, memory, 64],
        INVALID_VALUE,
    );
    check.expect(
        "cuTexRefSetFormat",
        &[texture, FLOAT as usize, 3],
        INVALID_VALUE,
    );
    check.expect("cuTexRefSetFormat", &[texture, 0x77, 1], INVALID_VALUE);
    check.expect(
        "cuTexRefSetFormat",
        &[texture, FLOAT as usize, usize::MAX],
        INVALID_VALUE,
    );
    check.expect("cuTexRefSetAddressMode", &[texture, 3, 0], INVALID_VALUE);
    check.expect("cuTexRefSetAddressMode", &[texture, 0, 4], INVALID_VALUE);
    check.expect("cuTexRefSetFilterMode", &[texture, 2], INVALID_VALUE);
    check.expect("cuTexRefSetMipmapFilterMode", &[texture, 2], INVALID_VALUE);
    check.expect("cuTexRefSetFlags", &[texture, 0x100], INVALID_VALUE);
    check.expect("cuTexRefSetBorderColor", &[texture, 0], INVALID_VALUE);
    check.expect("cuTexRefSetMaxAnisotropy", &[0, 4], INVALID_VALUE);
    check.expect("cuTexRefGetAddressMode", &[room, texture, 3], INVALID_VALUE);
    check.expect("cuTexRefGetFormat", &[0, 0, texture], INVALID_VALUE);
    check.expect(
        "cuTexRefGetMipmapLevelClamp",
        &[room, 0, texture],
        INVALID_VALUE,
    );
    for name in [
        "cuTexRefGetAddress_v2",
        "cuTexRefGetArray",
        "cuTexRefGetMipmappedArray",
        "cuTexRefGetFilterMode",
        "cuTexRefGetMipmapFilterMode",
        "cuTexRefGetMipmapLevelBias",
        "cuTexRefGetMaxAnisotropy",
        "cuTexRefGetBorderColor",
        "cuTexRefGetFlags",
    ] {
        check.expect(name, &[0, texture], INVALID_VALUE);
        check.expect(name, &[room, BOGUS], INVALID_VALUE);
    }
    check.expect("cuTexRefCreate", &[0], INVALID_VALUE);
    check.expect("cuTexRefDestroy", &[texture], INVALID_VALUE);
    check.expect("cuTexRefDestroy", &[0], INVALID_VALUE);
    let mut own = 0usize;
    assert_eq!(driver.call("cuTexRefCreate", &[address(&mut own)]), 0);
    assert_eq!(driver.call("cuTexRefDestroy", &[own]), 0);
    check.expect("cuTexRefDestroy", &[own], INVALID_VALUE);
    check.expect("cuSurfRefSetArray", &[surface, handle, 0], INVALID_VALUE);
    check.expect("cuSurfRefGetArray", &[room, surface], INVALID_VALUE);
    let stored = array(plane([8, 4, 0], SURFACE));
    check.expect("cuSurfRefSetArray", &[surface, stored, 1], INVALID_VALUE);
    assert_eq!(driver.call("cuSurfRefSetArray", &[surface, stored, 0]), 0);
    check.expect("cuSurfRefGetArray", &[0, surface], INVALID_VALUE);
    assert_eq!(driver.call("cuSurfRefGetArray", &[room, surface]), 0);
    assert_eq!(driver.call("cuModuleUnload", &[module]), 0);
    check.expect("cuTexRefGetFlags", &[room, texture], INVALID_VALUE);
    check.expect("cuSurfRefGetArray", &[room, surface], INVALID_VALUE);
    check.finish();
}
