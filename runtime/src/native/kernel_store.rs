//! Finds kernels of an image in the disk cache, lowered and prepared by earlier processes.
//!
//! Only kernels of long texts, whose function bodies are parsed when they are needed, are stored. Not stored are kernels
//! that checks or tools observe, and kernels of modules with 32-bit addresses, with source positions or with indirect
//! calls: their lowered functions refer to tables of the module to which each lowered function adds entries.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use margay_frontend::{LazyModule, SourceFile};
use margay_ir::entity::FuncId;
use margay_ir::module::Module;
use margay_jit::{CompiledKernel, DiskCache, StoredKernel, TextKey};

use super::disk::Caching;
use super::image::compiler;
use super::shared;
use crate::environment::narrow_addresses;

/// The kernels of one image in the disk cache.
pub(super) struct KernelStore {
    text: Arc<SourceFile>,
    defines_externals: bool,
    key: OnceLock<TextKey>,
    cache: &'static DiskCache,
}

impl KernelStore {
    /// Returns the store for the image of a module. Returns `None` if the disk cache is not used or if device memory has
    /// 32-bit addresses.
    pub(super) fn new(module: &LazyModule, caching: Caching) -> Option<KernelStore> {
        if narrow_addresses() {
            return None;
        }
        let cache = compiler(caching).ok()?.cache()?;
        Some(KernelStore::of(module, cache))
    }

    fn of(module: &LazyModule, cache: &'static DiskCache) -> KernelStore {
        KernelStore {
            text: module.text(),
            defines_externals: module.defines_externals(),
            key: OnceLock::new(),
            cache,
        }
    }

    fn key(&self) -> &TextKey {
        let key = || TextKey::new(self.text.text(), self.defines_externals);
        self.key.get_or_init(key)
    }

    /// Reads a kernel.
    pub(super) fn find(&self, kernel: FuncId) -> Option<StoredKernel> {
        self.cache.kernel(self.key(), kernel)
    }

    /// Returns the digest that identifies the code of a function that is prepared for a kernel; `None` if kernels of the
    /// module are not stored.
    pub(super) fn digest(
        &self,
        module: &Module,
        kernel: FuncId,
        function: FuncId,
    ) -> Option<[u8; 32]> {
        is_storable(module).then(|| self.key().function(kernel, function))
    }

    /// Stores a kernel of a module and the functions that it calls, if preparing them took a time of `spent`.
    pub(super) fn store(
        &self,
        module: &Module,
        kernel: (FuncId, &CompiledKernel),
        called: &[(FuncId, &CompiledKernel)],
        spent: Duration,
    ) {
        if !self.cache.is_worth_storing(spent) || !is_storable(module) {
            return;
        }
        let reached = shared::reachable(module, kernel.0);
        let bodies = reached.iter().map(|&id| (id, &module.functions[id]));
        let bodies: Vec<_> = bodies.filter(|(_, function)| function.has_body()).collect();
        let mut prepared = vec![kernel];
        prepared.extend_from_slice(called);
        self.cache
            .store_kernel(self.key(), kernel.0, &bodies, &prepared);
    }
}

/// Whether the functions of a module that have been lowered so far refer to no table to which lowering adds entries.
fn is_storable(module: &Module) -> bool {
    module.locs.is_empty() && module.signatures.is_empty()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use margay_ir::observe::Selection;
    use margay_ir::pass::instrument::Request;
    use margay_jit::digest_of;

    use super::*;
    use crate::native::bodies::Bodies;
    use crate::native::preparation::Preparation;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"a.cu\"\n";
    /// A function that is not inlined, because it is recursive.
    const CALLED: &str = ".func (.reg .b32 %r) down(.reg .b32 %n) {
        .reg .pred %p;
        .reg .b32 %m;
        mov.u32 %r, 7;
        setp.eq.u32 %p, %n, 0;
        @%p ret;
        sub.u32 %m, %n, 1;
        call (%r), down, (%m);
        add.u32 %r, %r, %n;
        ret;
    }\n";

    fn kernel(name: &str, body: &str) -> String {
        format!(
            ".visible .entry {name}(.param .u64 to) {{
                .reg .b64 %a; .reg .b32 %v;
                .shared .b32 {name}_shared;
                ld.param.u64 %a, [to];
                mov.u32 %v, %tid.x;
                {body}
                st.u32 [%a], %v;
                ret;
            }}\n"
        )
    }

    fn text() -> String {
        let calls = kernel(
            "calls",
            "call (%v), down, (%v); st.shared.u32 [calls_shared], %v;",
        );
        let other = kernel("other", "mad.lo.u32 %v, %v, %v, 5;");
        format!("{HEAD}{CALLED}{calls}{other}")
    }

    /// A folder that is deleted at the end of its test.
    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn cache(name: &str) -> (&'static DiskCache, Temporary) {
        let name = format!("margay-kernel-store-{}-{name}", std::process::id());
        let folder = Temporary(std::env::temp_dir().join(name));
        let cache = DiskCache::new(folder.0.clone(), 64 << 20).worth(Duration::ZERO);
        (Box::leak(Box::new(cache)), folder)
    }

    fn bodies(text: &str, cache: Option<&'static DiskCache>) -> (Bodies, FuncId, FuncId) {
        let source = SourceFile::new("a.ptx", text);
        let (module, _) = LazyModule::outline(Arc::new(source)).expect("valid PTX");
        let id = |name| module.module().kernel(name).expect("a kernel");
        let ids = (id("calls"), id("other"));
        let store = cache.map(|cache| KernelStore::of(&module, cache));
        let bodies = Bodies::lazy(Box::new(module), Request::default(), false);
        (bodies.with_store(store), ids.0, ids.1)
    }

    /// Prepares a kernel and the functions that it calls, stores them, and returns their digests.
    fn prepare(bodies: &Bodies, kernel: FuncId) -> Vec<[u8; 32]> {
        let snapshot = bodies
            .with(kernel, Selection::default())
            .expect("valid PTX");
        let mut preparation = Preparation::new(&snapshot.module, kernel, bodies);
        let made = preparation.function(kernel).expect("within the limits");
        let called = made.calls().0;
        let called = called
            .into_iter()
            .map(|id| (id, preparation.function(id).unwrap()));
        let called: Vec<_> = called.collect();
        preparation.store(&made, &called);
        let all = called.iter().map(|(_, called)| called.digest());
        all.chain([made.digest()]).collect()
    }

    /// Returns digests of the lowered functions of a kernel.
    fn lowered(bodies: &Bodies, kernel: FuncId) -> Vec<[u8; 32]> {
        let snapshot = bodies
            .with(kernel, Selection::default())
            .expect("valid PTX");
        let reached = shared::reachable(&snapshot.module, kernel);
        let functions = reached.iter().map(|&id| &snapshot.module.functions[id]);
        functions.map(digest_of).collect()
    }

    #[test]
    fn a_later_process_gets_the_same_functions() {
        let (cache, _folder) = cache("kernels");
        let (plain, calls, other) = bodies(&text(), None);
        let expected = [lowered(&plain, calls), lowered(&plain, other)];
        let prepared = [prepare(&plain, calls), prepare(&plain, other)];
        assert_eq!(expected[0].len(), 2);

        let (first, ..) = bodies(&text(), Some(cache));
        assert_eq!(prepare(&first, calls), prepared[0]);
        let (second, ..) = bodies(&text(), Some(cache));
        assert_eq!(lowered(&second, calls), expected[0]);
        let mut found: Vec<FuncId> = second
            .take_prepared(calls)
            .iter()
            .map(|(id, _)| *id)
            .collect();
        found.sort_unstable();
        assert_eq!(found.len(), 2);
        assert!(second.take_prepared(calls).is_empty());
        // The other kernel was not stored. It is lowered although the module has adopted bodies.
        assert_eq!(lowered(&second, other), expected[1]);
        assert!(second.take_prepared(other).is_empty());

        let (third, ..) = bodies(&text(), Some(cache));
        assert_eq!(prepare(&third, other), prepared[1]);
        assert_eq!(prepare(&third, calls), prepared[0]);
    }

    #[test]
    fn another_text_has_other_kernels() {
        let (cache, _folder) = cache("texts");
        let (first, calls, _) = bodies(&text(), Some(cache));
        prepare(&first, calls);
        // The kernel's own text is the same.
        let changed = text().replace("mov.u32 %r, 7", "mov.u32 %r, 8");
        let (plain, ..) = bodies(&changed, None);
        let (second, ..) = bodies(&changed, Some(cache));
        assert_eq!(lowered(&second, calls), lowered(&plain, calls));
        assert!(second.take_prepared(calls).is_empty());
        assert_ne!(lowered(&second, calls), lowered(&first, calls));
    }

    #[test]
    fn kernels_that_refer_to_tables_of_the_module_are_not_stored() {
        let position = text().replace("mad.lo", ".loc 1 5 0\nmad.lo");
        let indirect = text().replace(
            "mad.lo.u32 %v, %v, %v, 5;",
            ".reg .b64 %f; mov.u64 %f, down; p: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (%v), %f, (%v), p;",
        );
        for text in [position, indirect] {
            let (cache, _folder) = cache("tables");
            let (first, _, other) = bodies(&text, Some(cache));
            let prepared = prepare(&first, other);
            let (second, ..) = bodies(&text, Some(cache));
            let snapshot = second.with(other, Selection::default()).expect("valid PTX");
            assert!(!is_storable(&snapshot.module), "{text}");
            assert!(second.take_prepared(other).is_empty());
            assert_eq!(prepare(&second, other), prepared);
        }
    }
}
