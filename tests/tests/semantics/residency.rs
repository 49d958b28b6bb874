//! Tests how many CTAs can be resident at the same time: runs a grid barrier with the maximum
//! number of CTAs, and with one more CTA.

use margay::{DeviceBuffer, Error, LaunchConfig};

use super::machines;

const TEXT: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 count, .param .u64 seen) {
    .reg .pred %q; .reg .b32 %t, %c, %n, %x; .reg .b64 %p, %s;
    ld.param.u64 %p, [count]; ld.param.u64 %s, [seen]; mov.u32 %c, %ctaid.x; mov.u32 %n, %nctaid.x;
    mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; @%q bra wait;
    atom.acq_rel.gpu.global.add.u32 %x, [%p], 1;
again:
    ld.acquire.gpu.global.u32 %x, [%p]; setp.lt.u32 %q, %x, %n; @%q bra again;
    mad.wide.u32 %s, %c, 4, %s; st.global.u32 [%s], %x;
wait:
    bar.sync 0;
    ret;
}";

#[test]
fn a_grid_barrier_at_the_limit() {
    for machine in machines(&[1, 2]) {
        let runtime = &machine.runtime;
        let module = runtime.load_ptx(TEXT).expect("loads");
        let kernel = module.kernel("meet").expect("known");
        let sms = runtime.device(0).expect("one").config().sms;
        let most = sms * kernel.max_active_blocks(64, 0).expect("possible");
        let count: DeviceBuffer<u32> = runtime.alloc(1).expect("room");
        let seen: DeviceBuffer<u32> = runtime.alloc(most as usize).expect("room");
        let more = LaunchConfig::new(most + 1, 64).with_cooperative();
        let refused = runtime.launch(&kernel, more, (&count, &seen));
        assert!(
            matches!(refused, Err(Error::CooperativeLaunchTooLarge { .. })),
            "{refused:?}"
        );
        let config = LaunchConfig::new(most, 64).with_cooperative();
        let launch = runtime.launch(&kernel, config, (&count, &seen));
        launch.expect("launched");
        let seen = seen.to_vec().expect("complete");
        assert_eq!(seen, vec![most; most as usize], "{}", machine.label);
    }
}
