//! Tests of the code that reads fat binaries and ELF files. Some of the images were created with
//! NVIDIA's tools (`tests/data/make.sh`). The tests themselves create the other images, from the
//! description of the format. The tests also read shortened copies, and copies with single inverted
//! bits, of all images from NVIDIA's tools except `linked-stub.fatbin`.

use margay_frontend::container::{
    Codec, Container, ENTRY_HEADER_LEN, EntryHead, EntryInfo, EntryKind, HostSection, Image,
    ImageError, ImageFault, ImageKind, container_len, detect, elf_len, elf_tables_len,
    host_containers, select_ptx, wrapper,
};

const NONE: &[u8] = include_bytes!("data/scale-none.fatbin");
const LZ4: &[u8] = include_bytes!("data/scale-speed.fatbin");
const ZSTD: &[u8] = include_bytes!("data/scale-default.fatbin");
const MANY: &[u8] = include_bytes!("data/scale-many.fatbin");
const SASS: &[u8] = include_bytes!("data/scale-sass.fatbin");
/// The fat binary with an empty cubin that the device linker of `nvcc` adds to a program without relocatable device
/// code.
const STUB: &[u8] = include_bytes!("data/linked-stub.fatbin");
const ARCH_90A: &[u8] = include_bytes!("data/scale-90a.fatbin");
const CUBIN: &[u8] = include_bytes!("data/scale-sm_80.cubin");
const HOST: &[u8] = include_bytes!("data/scale-host.o");
const RDC: &[u8] = include_bytes!("data/scale-rdc.o");
const ALL: [&[u8]; 9] = [NONE, LZ4, ZSTD, MANY, SASS, ARCH_90A, CUBIN, HOST, RDC];

/// The fields of a fat binary's entry that [`container`] writes.
struct Put<'a> {
    kind: u16,
    sm: u32,
    flags: u64,
    compressed: u32,
    uncompressed: u64,
    payload: &'a [u8],
}

impl<'a> Put<'a> {
    fn ptx(sm: u32, payload: &'a [u8]) -> Self {
        Put {
            kind: 1,
            sm,
            flags: 0x11,
            compressed: 0,
            uncompressed: 0,
            payload,
        }
    }

    fn packed(flags: u64, uncompressed: u64, payload: &'a [u8]) -> Self {
        Put {
            kind: 1,
            sm: 80,
            flags,
            compressed: payload.len() as u32,
            uncompressed,
            payload,
        }
    }
}

/// Creates a fat binary in the format that NVIDIA's tool `fatbinary` writes, but without header
/// extensions.
fn container(entries: &[Put<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for put in entries {
        let padded = put.payload.len().next_multiple_of(8);
        body.extend(put.kind.to_le_bytes());
        body.extend(0x0101u16.to_le_bytes());
        body.extend(64u32.to_le_bytes());
        body.extend((padded as u64).to_le_bytes());
        body.extend(put.compressed.to_le_bytes());
        body.extend(0u32.to_le_bytes());
        body.extend([5, 0, 9, 0]);
        body.extend(put.sm.to_le_bytes());
        body.extend([0; 8]);
        body.extend(put.flags.to_le_bytes());
        body.extend([0; 8]);
        body.extend(put.uncompressed.to_le_bytes());
        body.extend(put.payload);
        body.resize(body.len() + padded - put.payload.len(), 0);
    }
    let mut all = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    all.extend((body.len() as u64).to_le_bytes());
    all.extend(body);
    all
}

fn only_text(image: &[u8], capability: u32) -> String {
    let mut texts = select_ptx(&[image], capability)
        .expect("a good image")
        .texts;
    assert_eq!(texts.len(), 1);
    texts.remove(0).text
}

#[test]
fn kinds_by_first_bytes() {
    assert_eq!(detect(&[0xb1, 0x43, 0x62, 0x46]), Some(ImageKind::Wrapper));
    assert_eq!(detect(NONE), Some(ImageKind::Fatbin));
    assert_eq!(detect(CUBIN), Some(ImageKind::Elf));
    assert_eq!(detect(b"!<arch>\n"), Some(ImageKind::Archive));
    assert_eq!(detect(b".version"), Some(ImageKind::Text));
    assert_eq!(detect(b"\n\n// x"), Some(ImageKind::Text));
    assert_eq!(detect(b"/*\xe9*/"), Some(ImageKind::Text));
    assert_eq!(detect(b""), Some(ImageKind::Text));
    assert_eq!(detect(b"\0"), Some(ImageKind::Text));
    assert_eq!(detect(b"\x89PNG"), None);
    assert_eq!(detect(b"\x01"), None);
}

#[test]
fn compressions_agree() {
    let plain = only_text(NONE, 80);
    assert!(
        plain.starts_with("\n\n"),
        "fatbinary blanks out comments: {plain:?}"
    );
    assert!(plain.contains(".target sm_75") && plain.contains(".visible .entry _Z5scalePfi("));
    assert!(plain.trim_end().ends_with('}') && !plain.contains('\0'));
    assert_eq!(only_text(LZ4, 80), plain);
    assert_eq!(only_text(ZSTD, 80), plain);
    let codec = |image| Container::parse(image).expect("parses").entries[0].codec();
    assert_eq!(
        (codec(NONE), codec(LZ4), codec(ZSTD)),
        (None, Some(Codec::Lz4), Some(Codec::Zstd))
    );
}

#[test]
fn extension_and_kinds() {
    let many = Container::parse(MANY).expect("parses");
    let seen: Vec<_> = many
        .entries
        .iter()
        .map(|e| (e.info.kind, e.info.sm, e.info.version))
        .collect();
    assert_eq!(
        seen,
        [
            (EntryKind::Ptx, 80, (9, 5)),
            (EntryKind::Cubin, 80, (1, 8)),
            (EntryKind::Ptx, 120, (9, 5))
        ]
    );
    for entry in &many.entries {
        assert_eq!(entry.info.source_name.as_deref(), Some("scale.cu"));
        let options =
            (entry.info.kind == EntryKind::Ptx).then_some("-maxrregcount=32 --generate-line-info");
        assert_eq!(entry.info.options.as_deref(), options);
    }
    assert!(many.entries[1].stored().starts_with(b"\x7fELF"));
    assert_eq!(
        Container::parse(ARCH_90A).expect("parses").entries[0]
            .info
            .target(),
        "sm_90a"
    );
}

#[test]
fn choice_of_entry() {
    let target = |image: &[u8], capability| {
        let text = only_text(image, capability);
        let at = text.find(".target ").expect("a target") + 8;
        text[at..]
            .split_whitespace()
            .next()
            .expect("a name")
            .trim_end_matches(',')
            .to_owned()
    };
    assert_eq!(target(MANY, 80), "sm_80");
    assert_eq!(target(MANY, 119), "sm_80");
    assert_eq!(target(MANY, 120), "sm_120");
    assert_eq!(
        target(MANY, 75),
        "sm_80",
        "the lowest above, when there is none below"
    );
    assert_eq!(target(ARCH_90A, 90), "sm_90a", "the device's own");
    assert_eq!(
        target(ARCH_90A, 100),
        "sm_80",
        "code for sm_90 alone does not run on sm_100"
    );
    let unordered = container(&[
        Put::ptx(90, b".target sm_90 "),
        Put::ptx(50, b".target sm_50 "),
        Put::ptx(75, b".target sm_75 "),
        Put::ptx(100, b".target sm_100 "),
    ]);
    assert_eq!(target(&unordered, 80), "sm_75");
    assert_eq!(target(&unordered, 99), "sm_90");
    assert_eq!(target(&unordered, 30), "sm_50");
}

#[test]
fn without_ptx_it_says_what_is_there() {
    let error = select_ptx(&[SASS], 80).expect_err("no PTX");
    assert_eq!(error.fault(), ImageFault::NoBinary);
    assert_eq!(
        error.to_string(),
        "this fat binary contains no PTX, only machine code (SASS) for sm_80 sm_90; build it with PTX \
         (nvcc -arch=compute_80, or -gencode arch=compute_80,code=compute_80)"
    );
    let empty = select_ptx(&[&container(&[])], 80).expect_err("no PTX");
    assert!(
        empty.to_string().contains("contains no PTX, only nothing"),
        "{empty}"
    );
    let lto = Put {
        kind: 8,
        ..Put::ptx(75, b"BC")
    };
    let other = Put {
        kind: 77,
        ..Put::ptx(75, b"?")
    };
    let error = select_ptx(&[&container(&[lto, other])], 80)
        .expect_err("no PTX")
        .to_string();
    assert!(
        error.contains("link-time code (LTO) for sm_75 and entries of unknown kind [77]"),
        "{error}"
    );
}

#[test]
fn cubins_are_refused_by_name() {
    let error = select_ptx(&[CUBIN], 80).expect_err("a cubin");
    assert_eq!(error.fault(), ImageFault::NoBinary);
    let text = error.to_string();
    assert!(
        text.contains("machine code for sm_80 only (kernels: _Z4fillPffi, _Z5scalePfi)"),
        "{text}"
    );
    // The header of the older ABI: OS ABI 0x33, ABI version 7, SM number in the lowest byte.
    let mut old = CUBIN[..64].to_vec();
    old[7..9].copy_from_slice(&[0x33, 7]);
    old[40..48].fill(0);
    old[48..52].copy_from_slice(&0x0050_0550u32.to_le_bytes());
    old[60..64].fill(0);
    let text = select_ptx(&[&old], 80).expect_err("a cubin").to_string();
    assert!(text.contains("machine code for sm_80 only, and"), "{text}");
}

#[test]
fn lengths_from_headers() {
    for image in [NONE, LZ4, ZSTD, MANY, SASS, ARCH_90A] {
        assert_eq!(
            container_len(image.first_chunk().expect("16 bytes")),
            Ok(image.len())
        );
    }
    for image in [CUBIN, HOST, RDC] {
        let tables = elf_tables_len(image.first_chunk().expect("64 bytes")).expect("sane");
        assert!(tables <= image.len());
        assert_eq!(elf_len(&image[..tables]), Ok(image.len()));
    }
    let huge = [
        0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    ];
    assert!(matches!(
        container_len(&huge),
        Err(ImageError::TooLarge { .. })
    ));
    let short = [0x50, 0xed, 0x55, 0xba, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(matches!(
        container_len(&short),
        Err(ImageError::Field { .. })
    ));
}

#[test]
fn wrapper_fields() {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&0x4662_43b1u32.to_le_bytes());
    bytes[4] = 2;
    bytes[8..16].copy_from_slice(&0x1234_5678_9abcu64.to_le_bytes());
    bytes[16..24].copy_from_slice(&0x7fff_0000u64.to_le_bytes());
    let read = wrapper(&bytes).expect("good");
    assert_eq!(
        (read.version, read.container, read.list),
        (2, 0x1234_5678_9abc, 0x7fff_0000)
    );
    bytes[4] = 3;
    assert!(wrapper(&bytes).is_err());
    bytes[0] = 0;
    assert!(wrapper(&bytes).is_err());
}

#[test]
fn host_files() {
    let found = host_containers(HOST).expect("reads");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].section, HostSection::Module);
    assert_eq!(found[0].container.entries[0].info.sm, 80);
    let found = host_containers(RDC).expect("reads");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].section, HostSection::Linked);
    assert!(found[0].container.entries[0].info.relocatable());
    assert!(only_text(RDC, 80).contains(".visible .global .align 4 .f32 factor"));
    // The ELF header of an x86-64 file that has no sections.
    let mut bare = HOST[..64].to_vec();
    bare[40..48].fill(0);
    bare[60..64].fill(0);
    assert_eq!(
        select_ptx(&[&bare], 80).expect_err("nothing in it"),
        ImageError::NoDeviceCode { machine: 62 }
    );
}

#[test]
fn archives() {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, data) in [
        ("host.o/", HOST),
        ("note.txt/", b"hello\n"),
        ("rdc.o/", RDC),
    ] {
        let fields = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            644,
            data.len()
        );
        archive.extend(fields.as_bytes());
        archive.extend(data);
        archive.resize(archive.len().next_multiple_of(2), b'\n');
    }
    let Image::Archive(members) = Image::parse(&archive).expect("reads") else {
        panic!("an archive")
    };
    let names: Vec<_> = members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["host.o", "rdc.o"]);
    assert_eq!(select_ptx(&[&archive], 80).expect("reads").texts.len(), 2);
}

#[test]
fn text_ends_at_nul_and_may_be_anything_printable() {
    assert_eq!(only_text(b".version 8.0\n\0garbage", 80), ".version 8.0\n");
    assert_eq!(only_text(b"// no end", 80), "// no end");
    assert_eq!(only_text(b"// caf\xe9", 80), "// caf\u{fffd}");
    assert_eq!(only_text(b"\0", 80), "");
}

#[test]
fn linked_images_defer_the_device_runtime() {
    let user = ".version 9.5\n.extern .func cudaLaunchDeviceV2;\n";
    let runtime = "\n.version 9.5\n.target sm_121\n.entry __nv_static_51__0afad4c0_22_cuda_device_runtime_cu_f78b5b52()\n";
    let mut with_options = container(&[Put::ptx(121, runtime.as_bytes())]);
    // Add an options block to the entry's header. The block contains the offset of the text, the length of the text,
    // and the text.
    let text = b" --compile-only ";
    let mut block = 72u32.to_le_bytes().to_vec();
    block.extend(16u32.to_le_bytes());
    block.extend(text);
    with_options.splice(80..80, block.iter().copied());
    with_options[16 + 4..16 + 8].copy_from_slice(&(64 + block.len() as u32).to_le_bytes());
    with_options[16 + 20..16 + 24].copy_from_slice(&64u32.to_le_bytes());
    let size = (with_options.len() - 16) as u64;
    with_options[8..16].copy_from_slice(&size.to_le_bytes());

    let user_image = container(&[Put::ptx(80, user.as_bytes())]);
    let empty = container(&[]);
    let selection = select_ptx(&[&empty, &user_image, &with_options], 80).expect("links");
    assert_eq!(selection.texts.len(), 1);
    assert_eq!(selection.texts[0].text, user);
    let deferred = selection.device_runtime.expect("kept aside");
    assert_eq!(deferred.text().expect("reads").text, runtime);
    // If the device runtime is the only image, it is an ordinary module.
    assert_eq!(only_text(&with_options, 80), runtime);
}

#[test]
fn declared_sizes_are_not_believed() {
    // A Zstandard frame that decompresses to 100 times the byte `x`. Below, the header of the entry declares other
    // sizes.
    let frame = [
        0x28,
        0xb5,
        0x2f,
        0xfd,
        0x20,
        100,
        (100u32 << 3 | 3) as u8,
        (100u32 >> 5) as u8,
        0,
        b'x',
    ];
    let good = container(&[Put::packed(0x8011, 100, &frame)]);
    assert_eq!(only_text(&good, 80), "x".repeat(100));
    for (size, what) in [
        (99, "at least 100"),
        (101, "contains 100"),
        (256 << 20, "contains 100"),
        (0, "at least 1"),
    ] {
        let error =
            select_ptx(&[&container(&[Put::packed(0x8011, size, &frame)])], 80).expect_err("a lie");
        assert!(error.to_string().contains(what), "{size}: {error}");
        assert_eq!(error.fault(), ImageFault::InvalidImage);
    }
    for size in [(256 << 20) + 1, u64::MAX] {
        let error =
            select_ptx(&[&container(&[Put::packed(0x8011, size, &frame)])], 80).expect_err("a lie");
        assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
    }
    // An LZ4 block: a literal `y`, a match of 19 + 255 + 1 bytes at distance 1, and five literals `z`.
    let block = [0x1f, b'y', 1, 0, 255, 1, 0x50, b'z', b'z', b'z', b'z', b'z'];
    let text = format!("{}zzzzz", "y".repeat(1 + 4 + 15 + 256));
    let good = container(&[Put::packed(0x2011, text.len() as u64, &block)]);
    assert_eq!(only_text(&good, 80), text);
    for size in [text.len() as u64 - 1, text.len() as u64 + 1, 1 << 30] {
        assert!(
            select_ptx(&[&container(&[Put::packed(0x2011, size, &block)])], 80).is_err(),
            "{size}"
        );
    }
    let unnamed =
        select_ptx(&[&container(&[Put::packed(0x11, 100, &frame)])], 80).expect_err("unknown");
    assert!(
        unnamed.to_string().contains("neither LZ4 nor Zstandard"),
        "{unnamed}"
    );
}

/// Passes `image` to the functions with which the driver library and the tools read images. The functions may fail but
/// must not panic. Returns whether [`select_ptx`] succeeds.
fn read_all(image: &[u8]) -> bool {
    if let Some(header) = image.first_chunk() {
        let _ = container_len(header);
    }
    if let Some(header) = image.first_chunk()
        && let Ok(tables) = elf_tables_len(header)
        && let Some(bytes) = image.get(..tables)
    {
        let _ = elf_len(bytes);
    }
    if let Ok(Image::Fatbin(container)) = Image::parse(image) {
        for entry in &container.entries {
            let _ = entry.prefix(16);
        }
    }
    select_ptx(&[image], 80).is_ok()
}

#[test]
fn every_truncation_is_an_error() {
    for image in ALL {
        let good = read_all(image);
        assert_eq!(
            good,
            !matches!(detect(image), Some(ImageKind::Elf)) && image != SASS
                || image == HOST
                || image == RDC
        );
        // An image that is truncated to fewer than 8 bytes can be mistaken for text.
        let step = if image.len() > 2000 { 7 } else { 1 };
        for end in (8..image.len()).step_by(step) {
            let ok = read_all(&image[..end]);
            assert!(
                !ok || image == HOST || image == RDC,
                "cut at {end} of {}",
                image.len()
            );
        }
    }
}

#[test]
fn no_flipped_bit_panics_or_hangs() {
    for image in ALL {
        let mut copy = image.to_vec();
        let step = if image.len() > 2000 { 11 } else { 1 };
        for bit in (0..image.len() * 8).step_by(step) {
            copy[bit / 8] ^= 1 << (bit % 8);
            read_all(&copy);
            copy[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn an_entry_that_claims_no_size_does_not_stop_progress() {
    let mut image = container(&[Put::ptx(80, b"x")]);
    for header in [0u32, 1, 63, u32::MAX] {
        image[20..24].copy_from_slice(&header.to_le_bytes());
        assert!(Container::parse(&image).is_err(), "header size {header}");
    }
    // The header is declared 1 byte too short, and the payload is declared so long that header and payload together
    // fill the file.
    image[20..24].copy_from_slice(&63u32.to_le_bytes());
    image[24..32].copy_from_slice(&9u64.to_le_bytes());
    assert!(Container::parse(&image).is_err());
    image[20..24].copy_from_slice(&64u32.to_le_bytes());
    for payload in [9u64, u64::MAX, u64::MAX - 63] {
        image[24..32].copy_from_slice(&payload.to_le_bytes());
        assert!(Container::parse(&image).is_err(), "payload size {payload}");
    }
}

#[test]
fn the_linkers_stub_is_empty_and_other_machine_code_is_not() {
    let empty = |image| {
        let container = Container::parse(image).expect("a container");
        let mut entries = container.entries.iter();
        entries.all(|entry| entry.is_empty_cubin())
    };
    assert!(empty(STUB));
    assert!(!empty(SASS));
    assert!(!empty(MANY));
}

#[test]
fn the_linkers_stub_adds_nothing_to_other_images() {
    let texts = |images: &[&[u8]]| {
        let selection = select_ptx(images, 80).expect("PTX");
        let texts = selection.texts.iter().map(|text| text.text.clone());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(&[STUB, MANY]), texts(&[MANY]));
    assert!(matches!(select_ptx(&[STUB], 80), Err(ImageError::NoPtx(_))));
    assert!(matches!(
        select_ptx(&[SASS, MANY], 80),
        Err(ImageError::NoPtx(_))
    ));
}

/// Follows the headers of a fat binary's entries, without their payloads.
fn heads(image: &[u8]) -> Vec<EntryHead> {
    let mut at = usize::from(u16::from_le_bytes([image[6], image[7]]));
    let end = container_len(image.first_chunk().expect("a header")).expect("a length");
    let mut heads = Vec::new();
    while at < end {
        let head = EntryHead::parse(image[at..].first_chunk().expect("a header"));
        let head = head.expect("an entry");
        at += head.len as usize;
        heads.push(head);
    }
    assert_eq!(at, end);
    heads
}

#[test]
fn heads_describe_the_same_entries() {
    for image in [MANY, ARCH_90A] {
        let container = Container::parse(image).expect("parses");
        let found = heads(image);
        assert_eq!(found.len(), container.entries.len());
        for (head, entry) in found.iter().zip(&container.entries) {
            let described = |i: &EntryInfo| (i.kind, i.sm, i.version, i.flags);
            assert_eq!(described(&head.info), described(&entry.info));
        }
    }
    let mut short = [0; ENTRY_HEADER_LEN];
    short[4] = 63;
    assert!(
        EntryHead::parse(&short).is_err(),
        "the header declares 63 bytes"
    );
}
