//! Texts of the code of kernels, for display.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use margay_exec::SyncPoint;

use super::forms::Sides;
use super::{CompiledKernel, Compiler};
use crate::addresses::DescTable;
use crate::emit::{cta_form, phases, warp_form};
use crate::error::CompileError;

impl Compiler {
    /// Returns Cranelift's text of a kernel's CTA form or, with `sync_point`, of one region of the warp form, for
    /// display.
    pub fn clif(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let context = self.form(kernel, sync_point, &mut descs)?;
        Ok(context.func.display().to_string())
    }

    /// Returns the machine instructions of a kernel's CTA form or, with `sync_point`, of one region of the warp form,
    /// for display.
    pub fn assembly(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.form(kernel, sync_point, &mut descs)?;
        context.set_disasm(true);
        let sliced = kernel.width(self, kernel.shown(self)) > 1;
        let isa = self.isa(sync_point.is_none() && sliced, kernel, &context.func);
        let compiled = context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
        Ok(compiled.vcode.clone().unwrap_or_default())
    }

    /// Builds the CTA form (with phases if the kernel has sync points) or a region, without running Cranelift's
    /// passes.
    fn form(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
        descs: &mut DescTable,
    ) -> Result<Context, CompileError> {
        let Some(sync_point) = sync_point else {
            let specialisation = kernel.shown(self);
            let width = kernel.width(self, specialisation);
            let sides = (width > 1)
                .then(|| Sides::new(&kernel.function, &kernel.regions, specialisation, width));
            let view = sides.as_ref().map(Sides::view);
            return self.built(cta_form::signature(), descs, |b, descs| {
                if !kernel.has_sync_points() {
                    let mut parts = kernel.parts(self, b, descs, None);
                    parts.trusted = specialisation.is_trusted();
                    cta_form::emit(parts, view)
                } else {
                    let mut parts = kernel.parts(self, b, descs, Some(&kernel.regions));
                    parts.trusted = specialisation.is_trusted();
                    phases::emit(parts, &kernel.sync_points, view)
                }
            });
        };
        let resume_point = kernel.regions.resume_points.get(sync_point.0 as usize);
        let resume_point = resume_point
            .ok_or_else(|| CompileError::Unsupported("a region that does not exist".into()))?;
        self.built(warp_form::signature(), descs, |b, descs| {
            warp_form::emit(
                kernel.parts(self, b, descs, Some(&kernel.regions)),
                resume_point,
            )
        })
    }
}
