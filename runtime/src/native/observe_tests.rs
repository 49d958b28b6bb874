//! Tests that tools do not change the code of kernels that they do not observe.

use std::sync::Arc;

use super::disk::Caching;
use super::image::PtxLoader;
use crate::engine::{EngineChoice, Image, KernelInfo, LoadOptions};
use crate::launch::Dim3;
use crate::observe::{AccessKind, Events, Launch, Request, Space, Tool, Tools};

/// The kernel `first`. [`code`] adds the kernel `second`, which differs only in its name.
const TEXT: &str = ".version 8.0 .target sm_80 .address_size 64
.visible .entry first(.param .u64 to) {
    .reg .b32 %t; .reg .b64 %a, %o; .shared .b32 s[32];
    ld.param.u64 %a, [to];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    st.shared.u32 [s], %t;
    bar.sync 0;
    ld.shared.u32 %t, [s];
    st.global.u32 [%a], %t;
    ret;
}
";

/// A tool that requests the accesses of the kernel `second`.
struct OfSecond;

impl Tool for OfSecond {
    fn name(&self) -> &str {
        "of second"
    }

    fn request(&self, kernel: &KernelInfo) -> Request {
        match &*kernel.name {
            "second" => Request::none().accesses(&[Space::Global], &AccessKind::ALL),
            _ => Request::none(),
        }
    }

    fn events(&self, _: &Launch, _: Events<'_>) {}
}

/// The identity of machine code: the digest of all inputs of its compilation, and the sizes of its
/// functions.
type Identity = ([u8; 32], Vec<usize>);

/// Returns, for each of the two kernels, the identity of its machine code and whether tools observe its launches.
fn code(tools: Vec<Arc<dyn Tool>>) -> Vec<(Identity, bool)> {
    let text = format!("{TEXT}{}", TEXT.replace("first", "second"));
    let text = text.replacen(".version 8.0 .target sm_80 .address_size 64", "", 2);
    let text = format!(".version 8.0 .target sm_80 .address_size 64{text}");
    let loader = PtxLoader::new(EngineChoice::Native).caching(Caching::Off);
    let loader = loader.with_tools(Arc::new(Tools::new(tools, None)));
    let image = loader.open(Image::Ptx(&text), &LoadOptions::default());
    let image = image.expect("loads");
    let kernels = (0..2).map(|index| {
        let source = image.source(index, Arc::new(image.bound_symbols(image.addresses(&[]))));
        let code = source.make_ready(Dim3::new(64, 1, 1), EngineChoice::Native);
        let code = code.expect("compiles");
        let native = code.native.as_ref().expect("has native code");
        (native.identity(), code.observers.is_some())
    });
    kernels.collect()
}

#[test]
fn kernels_that_no_tool_observes_have_the_same_code() {
    let plain = code(Vec::new());
    assert!(!plain[0].0.1.is_empty() && !plain[0].1 && !plain[1].1);
    let observed = code(vec![Arc::new(OfSecond)]);
    assert_eq!(plain[0], observed[0], "no tool observes the first kernel");
    assert!(plain[1].0 != observed[1].0 && observed[1].1);
}
