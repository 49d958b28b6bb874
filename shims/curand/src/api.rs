//! The exported C functions. Each one catches panics, and finds the generator of a handle.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use margay_native::host::{self, Direction};
use parking_lot::{Mutex, RwLock};

use crate::driver::driver;
use crate::engine::Kind;
use crate::generator::{Generator, Type};
use crate::poisson::{Method, Poisson};
use crate::status::{Outcome, Status, need};
use crate::{distribution, original, sobol};

#[cfg(not(test))]
include!(concat!(env!("OUT_DIR"), "/versions.rs"));

/// The version that is reported: the one of CUDA 12.9.
const VERSION: [i32; 3] = [10, 3, 10];

/// The generators, by handle. A handle is never dereferenced.
static GENERATORS: LazyLock<RwLock<HashMap<usize, Arc<Mutex<Generator>>>>> =
    LazyLock::new(RwLock::default);

/// Runs a call and returns its status.
fn guarded(body: impl FnOnce() -> Outcome) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status as i32,
        Err(panic) => {
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            Status::InternalError as i32
        }
    }
}

fn with(handle: usize, body: impl FnOnce(&mut Generator) -> Outcome) -> i32 {
    guarded(|| {
        let found = GENERATORS.read().get(&handle).cloned();
        body(&mut found.ok_or(Status::NotInitialized)?.lock())
    })
}

/// Writes a value to an address of the program.
fn write<T: Copy>(place: *mut T, value: T, status: Status) -> Outcome {
    let source = &raw const value as usize;
    // SAFETY: the buffer is the value, of which every byte of these numbers and pointers is initialised.
    let written = unsafe { host::copy(place.addr(), source, size_of::<T>(), Direction::Write) };
    need(written, status)
}

/// Whether the first and the last byte of memory are readable and writable.
fn is_writable(address: usize, bytes: usize) -> bool {
    let ends = [Some(address), address.checked_add(bytes.saturating_sub(1))];
    bytes == 0
        || ends.iter().all(|end| {
            let mut byte = 0_u8;
            let place = &raw mut byte as usize;
            end.is_some_and(|end| {
                // SAFETY: the buffer is a byte.
                let read = unsafe { host::copy(end, place, 1, Direction::Read) };
                // SAFETY: as above. The byte keeps its value.
                read && unsafe { host::copy(end, place, 1, Direction::Write) }
            })
        })
}

fn create(place: *mut usize, kind: i32, host: bool) -> i32 {
    /// Handles have these high bits. No address of a process has them.
    const MARK: usize = 0x6d72_0000_0000_0000;
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    guarded(|| {
        need(!place.is_null(), Status::NotInitialized)?;
        let kind = Type::of(kind).ok_or(Status::TypeError)?;
        if !host {
            driver()?.enter()?;
        }
        let handle = MARK + NEXT.fetch_add(1, Ordering::Relaxed) * 16;
        write(place, handle, Status::NotInitialized)?;
        let generator = Arc::new(Mutex::new(Generator::new(kind, host)));
        GENERATORS.write().insert(handle, generator);
        Ok(())
    })
}

fn generate(
    name: &'static CStr,
    handle: usize,
    output: *mut c_void,
    count: usize,
    kind: impl FnOnce(&Generator) -> Result<Kind, Status>,
) -> i32 {
    with(handle, |generator| {
        let kind = kind(generator)?;
        if generator.is_host() {
            let bytes = count.checked_mul(kind.size()).ok_or(Status::OutOfRange)?;
            need(is_writable(output.addr(), bytes), Status::LaunchFailure)?;
        }
        // SAFETY: the program guarantees the memory of a host generator, as far as it is not checked.
        unsafe { generator.generate(name, kind, output.addr(), count) }
    })
}

/// Creates a generator whose results are in device memory.
#[unsafe(no_mangle)]
pub extern "C" fn curandCreateGenerator(generator: *mut usize, kind: i32) -> i32 {
    create(generator, kind, false)
}

/// Creates a generator whose results are in the host's memory.
#[unsafe(no_mangle)]
pub extern "C" fn curandCreateGeneratorHost(generator: *mut usize, kind: i32) -> i32 {
    create(generator, kind, true)
}

/// Destroys a generator. Work that has been submitted is done.
#[unsafe(no_mangle)]
pub extern "C" fn curandDestroyGenerator(generator: usize) -> i32 {
    guarded(|| {
        let removed = GENERATORS.write().remove(&generator);
        need(removed.is_some(), Status::NotInitialized)
    })
}

/// Writes the library's version.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetVersion(version: *mut i32) -> i32 {
    let [major, minor, patch] = VERSION;
    let value = major * 1000 + minor * 100 + patch;
    guarded(|| write(version, value, Status::OutOfRange))
}

/// Writes a part of the library's version.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetProperty(property: i32, value: *mut i32) -> i32 {
    guarded(|| {
        let index = usize::try_from(property).map_err(|_| Status::OutOfRange)?;
        let part = *VERSION.get(index).ok_or(Status::OutOfRange)?;
        write(value, part, Status::OutOfRange)
    })
}

/// Sets the stream in whose order results are made.
#[unsafe(no_mangle)]
pub extern "C" fn curandSetStream(generator: usize, stream: usize) -> i32 {
    with(generator, |generator| {
        generator.set_stream(stream);
        Ok(())
    })
}

/// Sets the seed of a pseudorandom generator.
#[unsafe(no_mangle)]
pub extern "C" fn curandSetPseudoRandomGeneratorSeed(generator: usize, seed: u64) -> i32 {
    with(generator, |generator| generator.set_seed(seed))
}

/// Sets the number of results that are skipped.
#[unsafe(no_mangle)]
pub extern "C" fn curandSetGeneratorOffset(generator: usize, offset: u64) -> i32 {
    with(generator, |generator| generator.set_offset(offset))
}

/// Sets the order of results.
#[unsafe(no_mangle)]
pub extern "C" fn curandSetGeneratorOrdering(generator: usize, order: i32) -> i32 {
    with(generator, |generator| generator.set_ordering(order))
}

/// Sets the number of dimensions of a quasirandom generator.
#[unsafe(no_mangle)]
pub extern "C" fn curandSetQuasiRandomGeneratorDimensions(
    generator: usize,
    dimensions: u32,
) -> i32 {
    with(generator, |generator| generator.set_dimensions(dimensions))
}

/// Prepares a generator. The first results do this, too.
#[unsafe(no_mangle)]
pub extern "C" fn curandGenerateSeeds(generator: usize) -> i32 {
    with(generator, Generator::prepare)
}

/// Makes 32 random bits per result.
#[unsafe(no_mangle)]
pub extern "C" fn curandGenerate(generator: usize, output: *mut c_void, count: usize) -> i32 {
    generate(c"curandGenerate", generator, output, count, |_| {
        Ok(Kind::Bits)
    })
}

/// Makes 64 random bits per result.
#[unsafe(no_mangle)]
pub extern "C" fn curandGenerateLongLong(
    generator: usize,
    output: *mut c_void,
    count: usize,
) -> i32 {
    generate(c"curandGenerateLongLong", generator, output, count, |_| {
        Ok(Kind::LongBits)
    })
}

/// Makes uniform results.
#[unsafe(no_mangle)]
pub extern "C" fn curandGenerateUniform(
    generator: usize,
    output: *mut c_void,
    count: usize,
) -> i32 {
    generate(c"curandGenerateUniform", generator, output, count, |_| {
        Ok(Kind::Uniform)
    })
}

/// Makes uniform results of double precision.
#[unsafe(no_mangle)]
pub extern "C" fn curandGenerateUniformDouble(
    generator: usize,
    output: *mut c_void,
    count: usize,
) -> i32 {
    generate(
        c"curandGenerateUniformDouble",
        generator,
        output,
        count,
        |_| Ok(Kind::UniformDouble),
    )
}

macro_rules! normal {
    ($($function:ident $name:literal $kind:ident $type:ty;)*) => {$(
        #[doc = "Makes results of a distribution with a mean and a standard deviation."]
        #[unsafe(no_mangle)]
        pub extern "C" fn $function(
            generator: usize,
            output: *mut c_void,
            count: usize,
            mean: $type,
            deviation: $type,
        ) -> i32 {
            generate($name, generator, output, count, |_| Ok(Kind::$kind(mean, deviation)))
        }
    )*};
}

normal! {
    curandGenerateNormal c"curandGenerateNormal" Normal f32;
    curandGenerateNormalDouble c"curandGenerateNormalDouble" NormalDouble f64;
    curandGenerateLogNormal c"curandGenerateLogNormal" LogNormal f32;
    curandGenerateLogNormalDouble c"curandGenerateLogNormalDouble" LogNormalDouble f64;
}

/// Makes results of a Poisson distribution.
#[unsafe(no_mangle)]
pub extern "C" fn curandGeneratePoisson(
    generator: usize,
    output: *mut c_void,
    count: usize,
    mean: f64,
) -> i32 {
    generate(
        c"curandGeneratePoisson",
        generator,
        output,
        count,
        |generator| {
            need(Poisson::accepts(mean), Status::OutOfRange)?;
            Ok(Kind::Poisson(generator.poisson(mean)))
        },
    )
}

/// Makes results of a Poisson distribution by a method (`curandMethod_t`).
#[unsafe(no_mangle)]
pub extern "C" fn curandGeneratePoissonMethod(
    generator: usize,
    output: *mut c_void,
    count: usize,
    mean: f64,
    method: i32,
) -> i32 {
    /// `CURAND_M2`, `CURAND_DISCRETE_GAUSS`, and the last method.
    const M2: i32 = 5;
    const DISCRETE_GAUSS: i32 = 7;
    const LAST: i32 = 13;
    generate(
        c"curandGeneratePoissonMethod",
        generator,
        output,
        count,
        |generator| {
            need((0..=LAST).contains(&method), Status::OutOfRange)?;
            need(Poisson::accepts(mean), Status::OutOfRange)?;
            Ok(Kind::Poisson(match method {
                M2 if !Poisson::is_large(mean) => Poisson::new(mean, Method::Histogram),
                DISCRETE_GAUSS => Poisson::new(mean, Method::Normal),
                _ => generator.poisson(mean),
            }))
        },
    )
}

/// Creates the table of a Poisson distribution for device code.
#[unsafe(no_mangle)]
pub extern "C" fn curandCreatePoissonDistribution(mean: f64, place: *mut usize) -> i32 {
    guarded(|| {
        need(!place.is_null(), Status::NotInitialized)?;
        write(place, distribution::create(mean)?, Status::NotInitialized)
    })
}

/// Destroys the table of a distribution.
#[unsafe(no_mangle)]
pub extern "C" fn curandDestroyDistribution(distribution: usize) -> i32 {
    guarded(|| distribution::destroy(distribution))
}

/// Writes the address of direction vectors of 32 bits, for 20,000 dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetDirectionVectors32(vectors: *mut *const [u32; 32], set: i32) -> i32 {
    guarded(|| {
        let table = match set {
            101 => sobol::vectors32().as_ptr(),
            102 => original::tables()?.vectors32.as_ptr(),
            _ => return Err(Status::OutOfRange),
        };
        write(vectors, table, Status::OutOfRange)
    })
}

/// Writes the address of direction vectors of 64 bits, for 20,000 dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetDirectionVectors64(vectors: *mut *const [u64; 64], set: i32) -> i32 {
    guarded(|| {
        let table = match set {
            103 => sobol::vectors64().as_ptr(),
            104 => original::tables()?.vectors64.as_ptr(),
            _ => return Err(Status::OutOfRange),
        };
        write(vectors, table, Status::OutOfRange)
    })
}

/// Writes the address of the constants of scrambled sequences of 32 bits.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetScrambleConstants32(constants: *mut *const u32) -> i32 {
    guarded(|| {
        write(
            constants,
            original::tables()?.constants32.as_ptr(),
            Status::OutOfRange,
        )
    })
}

/// Writes the address of the constants of scrambled sequences of 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn curandGetScrambleConstants64(constants: *mut *const u64) -> i32 {
    guarded(|| {
        write(
            constants,
            original::tables()?.constants64.as_ptr(),
            Status::OutOfRange,
        )
    })
}
