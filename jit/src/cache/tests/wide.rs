//! Tests of code of the wide back end in the cache. They do nothing on hosts without AVX2.

use super::*;
use crate::addresses::Target;
use crate::compiler::Wide;

/// A kernel with operations that reference functions compute, and with accesses that need tests of their addresses.
const KERNEL: &str = "module version 8.0 target sm_80

fn0 = kernel @k visible registers 30 {
  parameters 8
  parameter @p offset 0 size 8 align 8
block0:
  jump block1
block1:
  v0: b64 = param.addr.u64 0  ; 7
  v1: b64 = ld.u64{space:param} v0  ; 7
  v2: b32 = sreg.u32 %tid.x  ; 8
  v3: b32 = const.b32 0x8  ; 9
  v4: b64 = mad.u32{half:wide} v2, v3, v1  ; 9
  v5: f64 = ld.f64{space:global} v4  ; 10
  v6: b32 = ld.u32{space:global} v4  ; 11
  v7: b32 = const.b32 0x0  ; 13
  v8: b32 = const.b32 0x3  ; 13
  v9: b32 = fns.b32 v6, v7, v8  ; 13
  v10: f64 = rcp.f64{rz} v5  ; 17
  st.f64{space:global} v4, v10  ; 18
  st.u32{space:global} v4, v9  ; 19
  exit  ; 22
}
";

fn wide(cache: DiskCache, wide: Wide) -> Option<Compiler> {
    let compiler = compiler(cache).with_wide(wide);
    compiler.uses_wide().then_some(compiler)
}

fn code<'a>(kernel: &'a CompiledKernel, compiler: &Compiler) -> &'a CompiledFunction {
    let made = kernel.cta(compiler, sliced()).expect("it compiles");
    assert!(made.only_from_start, "wide code");
    made
}

#[test]
fn wide_code_that_is_found_is_the_code_that_was_made() {
    let folder = Temporary::new("wide-found");
    let Some(first) = wide(cache(&folder), Wide::Avx2) else {
        return;
    };
    let second = wide(cache(&folder), Wide::Avx2).expect("the same host");
    let (one, other) = (kernel(KERNEL), kernel(KERNEL));
    let made = code(&one, &first);
    assert_eq!(counts(&first), (0, 1));
    assert!(other.is_kept(&second, sliced()));
    let found = code(&other, &second);
    assert_eq!(counts(&second), (1, 0));

    assert_eq!(made.places, found.places);
    assert_eq!(made.groups, found.groups);
    assert_eq!(made.operations, found.operations);
    assert_eq!(made.locs, found.locs);
    assert_eq!(made.sites, found.sites);
    assert!(!made.places.is_empty() && !made.operations.is_empty());
    let mut kinds = [0; 5];
    for site in &found.sites {
        kinds[site.target.parts().0 as usize] += 1;
        let at = site.offset as usize;
        let bytes = found.code.bytes()[at..at + 8].try_into().unwrap();
        let address = u64::from_ne_bytes(bytes);
        match site.target {
            Target::Operation(index) => {
                let operation = &found.operations[index as usize];
                assert_eq!(address, std::ptr::from_ref(operation) as u64);
            }
            _ => assert_ne!(address, 0),
        }
    }
    let is_used = kinds.map(|count| count > 0);
    assert_eq!(is_used, [false, false, true, true, true], "{kinds:?}");
    let [left, right] = [made, found].map(|function| {
        let mut code = function.code.bytes().to_vec();
        crate::addresses::clear(&mut code, &function.sites).expect("sites in the code");
        code
    });
    assert_eq!(left, right);
}

#[test]
fn another_processor_width_or_specialisation_has_other_wide_code() {
    let folder = Temporary::new("wide-keys");
    let mut compilers = Vec::new();
    for kind in [Wide::Off, Wide::Avx512, Wide::OnlyAvx2] {
        let compiler = compiler(cache(&folder)).with_wide(kind);
        if kind == Wide::Off || compiler.uses_wide() {
            compilers.push(compiler);
        }
    }
    for compiler in &compilers {
        let kernel = kernel(KERNEL);
        let narrow = Specialisation::of([5, 5, 1], Widths::all(32));
        let all = [sliced(), sliced().trusted(true), narrow];
        for (made, specialisation) in (0..).zip(all) {
            assert_eq!(counts(compiler), (0, made));
            kernel.cta(compiler, specialisation).expect("it compiles");
        }
        assert_eq!(counts(compiler), (0, 3));
    }
}

#[test]
fn a_damaged_entry_of_wide_code_is_refused() {
    let folder = Temporary::new("wide-damaged");
    let Some(compiler) = wide(cache(&folder), Wide::Avx2) else {
        return;
    };
    let kernel = kernel(KERNEL);
    let (made, key) = (code(&kernel, &compiler), [7; digest::BYTES]);
    let bytes = entry::write(&key, made, &kernel.function).expect("an entry");
    assert!(entry::read(&bytes, &key, kernel.source()).is_some());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(entry::read(&damaged, &key, kernel.source()).is_none());
    }
    // Entries with the right checksum whose sites lead to operations and helpers that do not exist.
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let first_site = 96 + word(12) + 16 * word(16);
    for number in 0..word(20) {
        let mut forged = bytes.clone();
        let at = first_site + 12 * number + 8;
        forged[at..at + 4].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        let sum = checksum_of(&forged);
        forged[64..96].copy_from_slice(&sum);
        assert!(entry::read(&forged, &key, kernel.source()).is_none());
    }
}

#[test]
fn chunk_widths_are_found_and_only_whole_entries_are_used() {
    let folder = Temporary::new("wide-widths");
    let Some(first) = wide(cache(&folder), Wide::Avx2) else {
        return;
    };
    // The widths of small kernels are not stored.
    let store = "  st.u32{space:global} v4, v9  ; 19\n";
    let text = KERNEL.replace(store, &store.repeat(100));
    kernel(KERNEL).widths(&first);
    assert!(folder.files().is_empty());
    let made = kernel(&text).widths(&first);
    let [path] = &folder.files()[..] else {
        panic!("one file: {:?}", folder.files());
    };
    let bytes = fs::read(path).unwrap();
    let again = || {
        let compiler = wide(cache(&folder), Wide::Avx2).expect("the same host");
        assert_eq!(kernel(&text).widths(&compiler), made);
    };
    again();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(path, damaged).unwrap();
        again();
        assert_eq!(fs::read(path).unwrap(), bytes, "the entry is written again");
    }
}
