//! Tests grids with the maximum extent in the second dimension, and a kernel with very many registers.

use margay::{DeviceBuffer, EngineChoice, LaunchConfig};

use super::machines;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Runs grids of 3 x 65,535 CTAs of 1,024 threads, with and without a barrier; one thread of each
/// CTA increments a counter. In the runs with the interpreter, a CTA has only one warp.
#[test]
fn grids_at_the_limit() {
    for barrier in ["", "bar.sync 0;"] {
        let text = format!(
            "{HEADER}.visible .entry many(.param .u64 d) {{
    .reg .pred %q; .reg .b32 %t, %x, %y, %n, %i; .reg .b64 %d, %w;
    ld.param.u64 %d, [d]; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x;
    mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y;
    {barrier}
    rem.u32 %i, %y, %n; setp.ne.u32 %q, %i, %t; @%q bra end;
    mad.lo.u32 %i, %y, 3, %x; cvt.u64.u32 %w, %i;
    red.global.add.u64 [%d], 1; red.global.add.u64 [%d+8], %w; red.global.xor.b64 [%d+16], %w;
end:
    ret;
}}"
        );
        let ctas = 3 * 65_535u64;
        let expected = [
            ctas,
            ctas * (ctas - 1) / 2,
            (0..ctas).fold(0, |all, i| all ^ i),
        ];
        for machine in machines(&[2]) {
            let threads = match machine.engine {
                EngineChoice::Interpreter => 2,
                _ => 1024u32,
            };
            let runtime = &machine.runtime;
            let module = runtime.load_ptx(&text).expect("loads");
            let kernel = module.kernel("many").expect("known");
            let d: DeviceBuffer<u64> = runtime.alloc(3).expect("room");
            let config = LaunchConfig::new((3, 65_535), threads);
            runtime.launch(&kernel, config, (&d,)).expect("launched");
            assert_eq!(d.to_vec().expect("complete"), expected, "{}", machine.label);
        }
    }
}

/// Tests a kernel with 30,000 registers that are all live at the same time.
#[test]
fn thirty_thousand_registers() {
    const REGISTERS: usize = 30_000;
    let mut body = String::new();
    for i in 1..REGISTERS {
        let j = i - 1;
        body += &format!("mad.lo.u32 %r{i}, %r{j}, 3, {i};\n");
    }
    body += "mov.u32 %s, 0;\n";
    for i in (0..REGISTERS).rev() {
        body += &format!("mad.lo.u32 %s, %s, 5, %r{i};\n");
    }
    let text = format!(
        "{HEADER}.visible .entry registers(.param .u64 d) {{
    .reg .b32 %r<{REGISTERS}>; .reg .b32 %s, %t; .reg .b64 %d;
    ld.param.u64 %d, [d]; mov.u32 %t, %tid.x; mov.u32 %r0, %t;
    {body}
    mad.wide.u32 %d, %t, 4, %d; st.global.u32 [%d], %s;
    ret;
}}"
    );
    let value = |thread: u32| {
        let mut registers = vec![thread];
        for i in 1..REGISTERS {
            registers.push(registers[i - 1].wrapping_mul(3).wrapping_add(i as u32));
        }
        let add = |sum: u32, &r: &u32| sum.wrapping_mul(5).wrapping_add(r);
        registers.iter().rev().fold(0, add)
    };
    let expected: Vec<u32> = (0..40).map(value).collect();
    for machine in machines(&[1, 3]) {
        let runtime = &machine.runtime;
        let module = runtime.load_ptx(&text).expect("loads");
        let kernel = module.kernel("registers").expect("known");
        let d: DeviceBuffer<u32> = runtime.alloc(40).expect("room");
        runtime
            .launch(&kernel, LaunchConfig::new(1, 40), (&d,))
            .expect("launched");
        assert_eq!(d.to_vec().expect("complete"), expected, "{}", machine.label);
    }
}
