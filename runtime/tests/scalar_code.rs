//! Scalar code relies on properties of a launch that are tested once: pointer parameters that are aligned. It also keeps
//! `%tid.x` in a register. The kernels run in scalar code first.

use margay::{EngineChoice, Error, FaultKind, LaunchConfig, Runtime};

/// Each thread adds the words of a row to its number in x. The rows begin at the address `from`.
const TEXT: &str = ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 count)
{
    .reg .b32 %x, %y, %z, %a, %b, %n, %v, %i; .reg .b64 %p, %q, %o; .reg .pred %c;
    ld.param.u64 %p, [from]; ld.param.u64 %q, [to]; ld.param.u32 %n, [count];
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
    mov.u32 %a, %ntid.x; mov.u32 %b, %ntid.y;
    mad.lo.u32 %i, %z, %b, %y; mad.lo.u32 %i, %i, %a, %x;
    mov.u32 %b, %ctaid.x; mad.lo.u32 %i, %b, 64, %i;
    mul.wide.u32 %o, %i, 4; add.s64 %q, %q, %o;
    mov.u32 %i, 0;
again:
    ld.global.u32 %v, [%p];
    add.u32 %x, %x, %v;
    add.s64 %p, %p, 4;
    add.u32 %i, %i, 1; setp.lt.u32 %c, %i, %n; @%c bra again;
    st.global.u32 [%q], %x;
    ret;
}
";

/// Runs the kernel with rows that begin `offset` bytes behind the start of a buffer. Returns the words that it writes, or
/// the kind of the fault.
fn sums(engine: EngineChoice, shape: (u32, u32, u32), offset: u64) -> Result<Vec<u32>, FaultKind> {
    let runtime = Runtime::builder().workers(1).engine(engine);
    let runtime = runtime.build().expect("built");
    let module = runtime.load_ptx(TEXT).expect("loads");
    let kernel = module.kernel("k").expect("known");
    let from = runtime.upload(&[1u32, 10, 100, 1000, 10_000]);
    let from = from.expect("uploaded");
    let to = runtime.upload(&[0u32; 192]).expect("uploaded");
    let config = LaunchConfig::new(3, shape);
    runtime
        .launch(&kernel, config, (from.ptr().address() + offset, &to, 3u32))
        .expect("launched");
    match runtime.synchronize() {
        Ok(()) => Ok(to.to_vec().expect("no fault")),
        Err(Error::Fault(fault)) => Err(fault.kind),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn pointers_that_are_not_aligned_fault_in_the_same_way() {
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        for (offset, sum) in [(0, 111), (4, 1110), (8, 11_100)] {
            let sums = sums(engine, (5, 1, 1), offset).expect("no fault");
            let expected: Vec<u32> = (0..5).map(|x| x + sum).collect();
            assert_eq!(sums[..5], expected, "{engine:?}, {offset}");
        }
        for offset in [1, 2, 6] {
            let kind = sums(engine, (5, 1, 1), offset).expect_err("the launch faults");
            assert_eq!(kind, FaultKind::MisalignedAddress, "{engine:?}, {offset}");
        }
    }
}

#[test]
fn threads_know_their_place_in_a_row() {
    for shape in [(5, 3, 2), (1, 7, 3), (3, 1, 4), (64, 1, 1)] {
        let sums = sums(EngineChoice::Native, shape, 0).expect("no fault");
        for (block, sums) in sums.chunks(64).enumerate() {
            for (thread, &sum) in sums.iter().enumerate() {
                let thread = thread as u32;
                let expected = match thread < shape.0 * shape.1 * shape.2 {
                    true => thread % shape.0 + 111,
                    false => 0,
                };
                assert_eq!(sum, expected, "{shape:?}, block {block}, thread {thread}");
            }
        }
    }
}
