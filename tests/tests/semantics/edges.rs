//! Checks that native code performs no accesses that the PTX text does not contain: accesses beyond
//! the end of memory, by lanes without a valid address, or to neighbouring elements that other
//! threads store.

use margay::{DeviceBuffer, EngineChoice, LaunchConfig};

use super::machines;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Size in bytes of an allocation that has its own guard pages and ends at the end of a page.
const LARGE: usize = 128 << 10;

/// Checks kernels that compute `y[i] = x[i + shift] + 1` for `i < n` with types of several widths.
/// The array `x` ends before an inaccessible guard page, or begins after a guard page and is read
/// from the end to the start.
#[test]
fn arrays_that_end_at_a_guard() {
    for (ty, bytes) in [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8)] {
        let register = if bytes == 8 { "%w" } else { "%v" };
        let add = if bytes == 8 { "u64" } else { "u32" };
        let text = format!(
            "{HEADER}.visible .entry edge(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 down) {{
    .reg .pred %q; .reg .b32 %t, %i, %n, %v, %d; .reg .b64 %x, %y, %o, %w;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u32 %n, [n]; ld.param.u32 %d, [down];
    mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; mov.u32 %v, %ntid.x; mad.lo.u32 %i, %i, %v, %t;
    setp.ge.u32 %q, %i, %n; @%q bra end;
    setp.eq.u32 %q, %d, 0; @%q bra up;
    sub.u32 %i, %n, %i; sub.u32 %i, %i, 1;
up:
    mul.wide.u32 %o, %i, {bytes}; add.u64 %x, %x, %o; add.u64 %y, %y, %o;
    ld.global.{ty} {register}, [%x]; add.{add} {register}, {register}, 1; st.global.{ty} [%y], {register};
end:
    ret;
}}"
        );
        for machine in machines(&[1, 3]) {
            let runtime = &machine.runtime;
            let module = runtime.load_ptx(&text).expect("loads");
            let kernel = module.kernel("edge").expect("known");
            let x: DeviceBuffer<u8> = runtime.alloc(LARGE).expect("room");
            let y: DeviceBuffer<u8> = runtime.alloc(LARGE).expect("room");
            let block = 96u32;
            for n in [1u32, 5, 31, 32, 33, 77, 100, 191] {
                y.zero().expect("filled");
                // The kernel reads the last n elements upwards, then the first n elements downwards.
                let end = (LARGE - n as usize * bytes) as u64;
                for (from, down) in [(end, 0u32), (0, 1)] {
                    let (from_x, from_y) = (x.ptr().offset(from), y.ptr().offset(from));
                    let config = LaunchConfig::linear(n + 64, block);
                    let launch = runtime.launch(&kernel, config, (from_x, from_y, n, down));
                    launch.expect("launched");
                }
                let found = y.to_vec().unwrap_or_else(|error| {
                    panic!("{ty}, {n} elements, {}: {error}", machine.label)
                });
                let ones = found.iter().filter(|&&byte| byte == 1).count();
                assert_eq!(ones, 2 * n as usize, "{ty}, {n}, {}", machine.label);
                let others = found.iter().filter(|&&byte| byte > 1).count();
                assert_eq!(others, 0, "{ty}, {n}, {}", machine.label);
            }
        }
    }
}

/// Checks a kernel whose CTAs write neighbouring elements of one array at the same time. Each CTA
/// writes its own elements repeatedly. If the code stored more than a CTA's own elements, it would
/// overwrite values of other CTAs.
#[test]
fn stores_between_those_of_others() {
    for (ty, bytes, load) in [("u8", 1, "u8"), ("u16", 2, "u16"), ("u32", 4, "u32")] {
        let text = format!(
            "{HEADER}.visible .entry weave(.param .u64 x, .param .u64 lost, .param .u32 turns) {{
    .reg .pred %q, %mine; .reg .b32 %t, %c, %i, %n, %v, %e; .reg .b64 %x, %l;
    ld.param.u64 %x, [x]; ld.param.u64 %l, [lost]; ld.param.u32 %n, [turns];
    mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %i, 0;
    // Element t belongs to the CTA with the same last bit.
    and.b32 %e, %t, 1; setp.eq.u32 %mine, %e, %c;
    mad.wide.u32 %x, %t, {bytes}, %x;
again:
    and.b32 %v, %i, 127;
    @%mine st.global.{ty} [%x], %v;
    membar.gl;
    mov.u32 %e, %v; @%mine ld.global.{load} %e, [%x];
    setp.ne.u32 %q, %e, %v; @%q red.global.add.u32 [%l], 1;
    add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra again;
    ret;
}}"
        );
        for machine in machines(&[2]) {
            let runtime = &machine.runtime;
            let turns = match machine.engine {
                EngineChoice::Interpreter => 200u32,
                _ => 20_000,
            };
            let module = runtime.load_ptx(&text).expect("loads");
            let kernel = module.kernel("weave").expect("known");
            let x: DeviceBuffer<u8> = runtime.alloc(256).expect("room");
            let lost: DeviceBuffer<u32> = runtime.alloc(1).expect("room");
            let config = LaunchConfig::new(2, 64);
            let launch = runtime.launch(&kernel, config, (&x, &lost, turns));
            launch.expect("launched");
            let lost = lost.to_vec().expect("complete");
            assert_eq!(lost, [0], "{ty}, {}", machine.label);
        }
    }
}
