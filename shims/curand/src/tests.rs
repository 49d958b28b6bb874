//! Compares results with those of NVIDIA's library (`tests/golden.txt`), and checks statuses. Host generators need no
//! driver.

use std::ffi::c_void;

use crate::api::*;

/// The statuses that the tests expect.
const NOT_INITIALIZED: i32 = 101;
const TYPE_ERROR: i32 = 103;
const OUT_OF_RANGE: i32 = 104;
const LENGTH_NOT_MULTIPLE: i32 = 105;
const LAUNCH_FAILURE: i32 = 201;

/// A host generator.
fn host(kind: i32) -> usize {
    let mut generator = 0;
    assert_eq!(curandCreateGeneratorHost(&raw mut generator, kind), 0);
    generator
}

/// The generator that a line describes, and what to generate.
struct Case<'a> {
    generator: usize,
    kind: i32,
    results: &'a str,
    count: usize,
}

impl Case<'_> {
    fn of<'a>(fields: &[&'a str]) -> Case<'a> {
        let number = |k: usize| fields[k].parse::<u64>().unwrap();
        let (kind, ordering) = (number(0) as i32, number(1) as i32);
        let (offset, dimensions) = (number(3), number(4) as u32);
        let generator = host(kind);
        if ordering != 0 {
            assert_eq!(curandSetGeneratorOrdering(generator, ordering), 0);
            assert_eq!(curandSetPseudoRandomGeneratorSeed(generator, number(2)), 0);
        }
        if offset != 0 {
            assert_eq!(curandSetGeneratorOffset(generator, offset), 0);
        }
        if dimensions != 0 {
            assert_eq!(
                curandSetQuasiRandomGeneratorDimensions(generator, dimensions),
                0
            );
        }
        let count = number(6) as usize;
        Case {
            generator,
            kind,
            results: fields[5],
            count,
        }
    }

    /// Generates results, in pieces of the given sizes (all if a size is too large).
    fn words(&self, mut piece: usize) -> (i32, Vec<u32>) {
        let wide = self.results == "d" || (self.results == "bits" && self.kind > 202);
        let size = if wide { 2 } else { 1 };
        let mut words = vec![0_u32; size * self.count + 1];
        // Results of 64 bits are aligned.
        let skip = usize::from(wide && !words.as_ptr().addr().is_multiple_of(8));
        let mut done = 0;
        while done < self.count {
            let count = piece.min(self.count - done);
            let place = words[skip + size * done..].as_mut_ptr().cast::<c_void>();
            let generator = self.generator;
            let status = match self.results {
                "bits" if wide => curandGenerateLongLong(generator, place, count),
                "bits" => curandGenerate(generator, place, count),
                "f" => curandGenerateUniform(generator, place, count),
                "d" => curandGenerateUniformDouble(generator, place, count),
                poisson => {
                    let mean = poisson[1..].parse().unwrap();
                    curandGeneratePoisson(generator, place, count, mean)
                }
            };
            if status != 0 {
                return (status, words);
            }
            done += count;
            piece = piece.saturating_mul(3).saturating_add(1);
        }
        words.drain(..skip);
        words.truncate(size * self.count);
        (0, words)
    }
}

fn hash(words: &[u32]) -> u64 {
    words.iter().fold(0, |hash: u64, word| {
        hash.wrapping_mul(0x100_0000_01b3)
            .wrapping_add(u64::from(*word))
    })
}

#[test]
fn results_are_those_of_nvidias_library() {
    /// Scrambled sequences need NVIDIA's library.
    const SCRAMBLED: [i32; 2] = [202, 204];
    let mut compared = 0;
    for line in include_str!("../tests/golden.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let first: Vec<u32> = fields[8..]
            .iter()
            .map(|word| u32::from_str_radix(word, 16).unwrap())
            .collect();
        let pseudo = !fields[0].starts_with('2');
        for piece in [usize::MAX, 5] {
            if piece == 5 && !pseudo {
                continue;
            }
            let case = Case::of(&fields);
            let (status, words) = case.words(piece);
            assert_eq!(curandDestroyGenerator(case.generator), 0);
            if SCRAMBLED.contains(&case.kind) && status == 203 {
                continue;
            }
            assert_eq!(status, 0, "{line}");
            assert_eq!(words[..4], first, "{line}");
            assert_eq!(format!("{:016x}", hash(&words)), fields[7], "{line}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn normal_numbers_have_their_moments_and_pairs() {
    for kind in [101, 121, 141, 161, 201, 203] {
        let generator = host(kind);
        let mut single = vec![0_f32; 40_000];
        let place = single.as_mut_ptr().cast();
        assert_eq!(
            curandGenerateNormal(generator, place, single.len(), 3.0, 2.0),
            0
        );
        let mut double = vec![0_f64; 40_000];
        let place = double.as_mut_ptr().cast();
        assert_eq!(
            curandGenerateNormalDouble(generator, place, double.len(), -1.0, 0.5),
            0
        );
        let single: Vec<f64> = single.iter().map(|&value| f64::from(value)).collect();
        for (values, mean, deviation) in [(single, 3.0, 2.0), (double, -1.0, 0.5)] {
            let n = values.len() as f64;
            let average = values.iter().sum::<f64>() / n;
            let square = values.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n;
            assert!(
                (average - mean).abs() < 0.05 * deviation,
                "{kind}: {average}"
            );
            assert!(
                (square.sqrt() / deviation - 1.0).abs() < 0.03,
                "{kind}: {square}"
            );
        }
    }
}

#[test]
fn wrong_arguments_have_their_statuses() {
    let mut words = [0_u32; 8];
    let place: *mut c_void = words.as_mut_ptr().cast();
    let null = std::ptr::null_mut();
    let (xorwow, philox, mtgp, mt) = (host(101), host(161), host(141), host(142));
    let (sobol, sobol64) = (host(201), host(203));
    for unknown in [0, 8, usize::MAX] {
        assert_eq!(curandDestroyGenerator(unknown), NOT_INITIALIZED);
        assert_eq!(curandGenerate(unknown, place, 4), NOT_INITIALIZED);
        assert_eq!(
            curandGeneratePoisson(unknown, place, 4, -1.0),
            NOT_INITIALIZED
        );
    }
    assert_eq!(
        curandCreateGeneratorHost(std::ptr::null_mut(), 101),
        NOT_INITIALIZED
    );
    assert_eq!(
        curandCreateGeneratorHost(&raw mut words[0] as *mut usize, 999),
        TYPE_ERROR
    );
    assert_eq!(curandSetPseudoRandomGeneratorSeed(sobol, 1), TYPE_ERROR);
    assert_eq!(
        curandSetQuasiRandomGeneratorDimensions(xorwow, 1),
        TYPE_ERROR
    );
    for dimensions in [0, 20_001] {
        assert_eq!(
            curandSetQuasiRandomGeneratorDimensions(sobol, dimensions),
            OUT_OF_RANGE
        );
    }
    for generator in [mtgp, mt] {
        assert_eq!(curandSetGeneratorOffset(generator, 1), TYPE_ERROR);
    }
    for (generator, ordering) in [
        (xorwow, 105),
        (xorwow, 201),
        (xorwow, 104),
        (philox, 102),
        (mt, 100),
        (sobol, 101),
    ] {
        assert_eq!(
            curandSetGeneratorOrdering(generator, ordering),
            OUT_OF_RANGE,
            "{ordering}"
        );
    }
    assert_eq!(curandGenerateLongLong(xorwow, place, 4), TYPE_ERROR);
    assert_eq!(curandGenerate(sobol64, place, 4), TYPE_ERROR);
    assert_eq!(
        curandGenerateNormal(xorwow, place, 3, 0.0, 1.0),
        LENGTH_NOT_MULTIPLE
    );
    assert_eq!(curandGenerateNormal(philox, place, 3, 0.0, 1.0), 0);
    assert_eq!(curandSetQuasiRandomGeneratorDimensions(sobol, 3), 0);
    assert_eq!(curandGenerate(sobol, place, 4), LENGTH_NOT_MULTIPLE);
    for mean in [0.0, -1.0, 400_001.0, f64::NAN] {
        assert_eq!(curandGeneratePoisson(xorwow, place, 4, mean), OUT_OF_RANGE);
    }
    for wrong in [null, 8 as *mut c_void, (1_usize << 62) as *mut c_void] {
        assert_eq!(
            curandGenerate(xorwow, wrong, 4),
            LAUNCH_FAILURE,
            "{wrong:?}"
        );
        assert_eq!(curandGenerate(xorwow, wrong, 0), 0);
    }
    assert_eq!(curandGenerate(xorwow, place, usize::MAX), OUT_OF_RANGE);
    let mut table = std::ptr::null();
    assert_eq!(
        curandGetDirectionVectors32(&raw mut table, 103),
        OUT_OF_RANGE
    );
    assert_eq!(
        curandGetDirectionVectors32(std::ptr::null_mut(), 101),
        OUT_OF_RANGE
    );
    assert_eq!(curandGetDirectionVectors32(&raw mut table, 101), 0);
    // SAFETY: the table has 20,000 lines.
    assert_eq!(unsafe { (*table)[0] }, 1 << 31);
    assert_eq!(curandGetVersion(std::ptr::null_mut()), OUT_OF_RANGE);
    let mut version = 0;
    assert_eq!((curandGetVersion(&raw mut version), version), (0, 10_310));
    assert_eq!(curandGetProperty(3, &raw mut version), OUT_OF_RANGE);
}
