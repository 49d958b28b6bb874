//! The native functions of a kernel, each of which is compiled at its first use.

use cranelift_frontend::FunctionBuilder;
use margay_exec::SyncPoint;
use margay_ir::analysis::{Cfg, Dominators, Linear, Regions, SpeculativeAffine, Uniformity};
use margay_ir::function::Function;

use super::limits::{MAX_JOINT, MAX_PHASES, MAX_REGIONS};
use super::{CompiledKernel, Compiler, Form, wide};
use crate::addresses::DescTable;
use crate::emit::lane::LaneParts;
use crate::emit::slice::View;
use crate::emit::{cta_form, device, phases, warp_form};
use crate::error::CompileError;
use crate::fallback::Fallback;
use crate::function::CompiledFunction;
use crate::slices;
use crate::specialisation::Specialisation;

/// The results of the analyses that vector code needs, and the chunk width.
pub(super) struct Sides {
    uniformity: Uniformity,
    linear: Linear,
    speculative: SpeculativeAffine,
    converged: Vec<bool>,
    width: u32,
}

impl Sides {
    pub(super) fn new(
        function: &Function,
        regions: &Regions,
        specialisation: Specialisation,
        width: u32,
    ) -> Sides {
        let cfg = Cfg::new(function);
        let dominators = Dominators::new(&cfg);
        let uniformity = Uniformity::new(function, specialisation.assumptions(width));
        Sides {
            speculative: SpeculativeAffine::new(function, &uniformity, &cfg),
            linear: Linear::new(function, &cfg, width == 32),
            converged: regions
                .resume_points
                .iter()
                .map(|resume_point| uniformity.is_converged(&cfg, &dominators, resume_point.block))
                .collect(),
            uniformity,
            width,
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            uniformity: &self.uniformity,
            linear: &self.linear,
            speculative: &self.speculative,
            converged: &self.converged,
            width: self.width,
        }
    }
}

impl CompiledKernel {
    /// Returns the warp form of a region, which is compiled at the first call.
    pub fn region(
        &self,
        compiler: &Compiler,
        sync_point: SyncPoint,
    ) -> Result<&CompiledFunction, CompileError> {
        let index = sync_point.0 as usize;
        let (Some(cell), Some(resume_point)) =
            (self.warp.get(index), self.regions.resume_points.get(index))
        else {
            return Err(CompileError::Unsupported(
                "a region that does not exist".into(),
            ));
        };
        let make = || {
            compiler.function((warp_form::signature(), false), self, |b, descs| {
                warp_form::emit(
                    self.parts(compiler, b, descs, Some(&self.regions)),
                    resume_point,
                )
            })
        };
        let made = cell.get_or_init(|| compiler.cached(self, Form::Region(sync_point.0), make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the joint warp form, which contains the code of all regions once and is compiled at the first call.
    /// Before a call of this code, the caller stores the number of the resume point in the field `phase` of the context.
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if the code would take too long to compile.
    pub fn joint(&self, compiler: &Compiler) -> Result<&CompiledFunction, CompileError> {
        let make = || {
            let blocks = self.function.blocks().iter();
            let insts = blocks.map(|&block| self.function.insts(block).len());
            let insts: usize = insts.sum();
            if self.regions.resume_points.len() > MAX_REGIONS || insts > MAX_JOINT {
                return Err(CompileError::Budget(format!(
                    "more than {MAX_REGIONS} synchronisation points, or more than {MAX_JOINT} instructions"
                )));
            }
            self.fallbacks.note(Fallback::JointRegions);
            compiler.function((warp_form::signature(), false), self, |b, descs| {
                warp_form::emit_joint(self.parts(compiler, b, descs, Some(&self.regions)))
            })
        };
        let made = self
            .joint
            .get_or_init(|| compiler.cached(self, Form::Joint, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the CTA form of a kernel without sync points, which is compiled at the first call.
    pub fn cta(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
            compiler.function(
                (cta_form::signature(), sides.is_some()),
                self,
                |b, descs| {
                    let mut parts = self.parts(compiler, b, descs, None);
                    parts.trusted = specialisation.is_trusted();
                    cta_form::emit(parts, sides.map(Sides::view))
                },
            )
        };
        let made = self
            .cta
            .cell(specialisation)
            .get_or_init(|| self.in_slices(compiler, specialisation, Form::Cta, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the CTA form of a kernel with sync points, which is compiled at the first call. Fails with
    /// [`CompileError::Budget`] if one function that contains all regions would take too long to compile.
    pub fn phases(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
            if compiler.joint {
                return Err(CompileError::Budget("only the joint form".into()));
            }
            if sides.is_none() && self.size_in_regions(MAX_PHASES) > MAX_PHASES {
                self.fallbacks.note(Fallback::NoPhases);
                return Err(CompileError::Budget(format!(
                    "phases of more than {MAX_PHASES} instructions over all regions"
                )));
            }
            compiler.function(
                (cta_form::signature(), sides.is_some()),
                self,
                |b, descs| {
                    let mut parts = self.parts(compiler, b, descs, Some(&self.regions));
                    parts.trusted = specialisation.is_trusted();
                    phases::emit(parts, &self.sync_points, sides.map(Sides::view))
                },
            )
        };
        let made = self
            .phases
            .cell(specialisation)
            .get_or_init(|| self.in_slices(compiler, specialisation, Form::Phases, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns whether the disk cache appears to contain the code of a specialisation. Checks only the name of the
    /// file.
    pub fn is_kept(&self, compiler: &Compiler, specialisation: Specialisation) -> bool {
        let form = match self.has_sync_points() {
            true => Form::Phases,
            false => Form::Cta,
        };
        let width = self.width(compiler, specialisation);
        let wide = self.wide_form(compiler, specialisation);
        let mut forms = wide.into_iter().chain([form(specialisation, width)]);
        forms.any(|form| compiler.keeps(self, form))
    }

    /// Compiles the program of the wide back end if there is one, and vector code otherwise. If the vector code for the
    /// kernel's chunk width is too large, compiles code for narrower chunks.
    ///
    /// Compiles scalar code instead if the specialisation is scalar, or if vector code is too large for every width,
    /// contains an unsupported operation, or is rejected by Cranelift. If a tool observes whole warps, compiles only
    /// vector code for the kernel's chunk width.
    pub(super) fn in_slices(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
        form: fn(Specialisation, u32) -> Form,
        make: impl Fn(Option<&Sides>) -> Result<CompiledFunction, CompileError>,
    ) -> Result<CompiledFunction, CompileError> {
        if let Some(form @ Form::Wide(_, width, target)) = self.wide_form(compiler, specialisation)
        {
            let make = || wide::code(self, compiler, specialisation, (width, target));
            match compiler.cached(self, form, make) {
                Ok(code) => return Ok(code),
                Err(why) => self
                    .fallbacks
                    .refuse(wide::fallback(&why), &why.to_string()),
            }
        }
        let mut width = self.width(compiler, specialisation);
        compiler.cached(self, form(specialisation, width), || {
            while width > 1 {
                let sides = Sides::new(&self.function, &self.regions, specialisation, width);
                let made = make(Some(&sides));
                if self.request.selection.whole_warps {
                    return made;
                }
                let narrower = width / 2;
                let why = match made {
                    Err(CompileError::Budget(_)) if narrower >= slices::MIN_WIDTH => {
                        self.fallbacks.note(Fallback::NarrowCode);
                        width = narrower;
                        continue;
                    }
                    Err(CompileError::Budget(_)) => Fallback::SlicesBudget,
                    Err(CompileError::Unsupported(_)) => Fallback::SlicesUnsupported,
                    Err(CompileError::Backend(_)) => Fallback::SlicesBackend,
                    made => return made,
                };
                self.fallbacks.note(why);
                break;
            }
            make(None)
        })
    }

    /// Returns the function compiled as a device function, in which no lane may wait.
    pub fn device(&self, compiler: &Compiler) -> Result<&CompiledFunction, CompileError> {
        let make = || {
            compiler.function((device::signature(), false), self, |b, descs| {
                device::emit(self.parts(compiler, b, descs, None))
            })
        };
        let made = self
            .cta
            .cell(Specialisation::SINGLE)
            .get_or_init(|| compiler.cached(self, Form::Device, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the native functions that have been compiled so far.
    pub fn compiled(&self) -> impl Iterator<Item = &CompiledFunction> {
        let warp = self.warp.iter().chain([&self.joint]);
        let warp = warp.filter_map(|cell| cell.get());
        let whole = self.cta.all().chain(self.phases.all());
        warp.chain(whole).filter_map(|made| made.as_ref().ok())
    }

    pub(super) fn parts<'a, 'b>(
        &'a self,
        compiler: &Compiler,
        b: &'a mut FunctionBuilder<'b>,
        descs: &'a mut DescTable,
        regions: Option<&'a Regions>,
    ) -> LaneParts<'a, 'b> {
        LaneParts {
            b,
            function: &self.function,
            regions,
            descs,
            slots: &self.slots,
            homes: &self.homes,
            has_fma: compiler.has_fma,
            isolated: compiler.isolated,
            trusted: false,
            request: self.request,
            counters: &self.counters,
            pointers: &self.pointers,
            multiples: &self.multiples,
            symbols: &self.symbols,
            called_signatures: &self.signatures,
            fallbacks: &self.fallbacks,
        }
    }
}
