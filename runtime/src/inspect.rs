//! Shows the work of the compiler: returns the text of an image at each stage of its translation to
//! native code.
//!
//! `margay dis` and tests use this module. No function of this module runs device code. Invariant: the printed code is
//! the code that an engine uses, because the same passes and the same compiler produce it.

use std::fmt::Write;
use std::time::Duration;

use margay_exec::SyncPoint;
use margay_frontend::SourceFile;
use margay_frontend::diagnostic::Style;
use margay_ir::analysis::uniformity::{Assumptions, Uniformity, UniformityNotes};
use margay_ir::entity::FuncId;
use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::print::with_notes;
use margay_ir::{parse, pass, verify};
use margay_jit::{CompileError, CompiledKernel, Specialisation};

mod check;

pub use check::{Checked, Problem, check_ptx};

use crate::engine::LoadOptions;
use crate::error::{Error, Result};
use crate::native::{Caching, compiler, guarded, linked};

/// A pass of the compiler.
///
/// ```
/// let names: Vec<&str> = margay::inspect::passes().map(|pass| pass.name).collect();
/// assert_eq!(names.last(), Some(&"sync-points"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The name of the pass.
    pub name: &'static str,
    /// A short description of the pass.
    pub about: &'static str,
}

/// Returns the passes in the order in which they run.
pub fn passes() -> impl Iterator<Item = Pass> {
    pass::PASSES.iter().map(|pass| Pass {
        name: pass.name,
        about: pass.about,
    })
}

/// The duration of a pass and the size of its result.
///
/// ```
/// let image = margay::inspect::Inspection::load(
///     b".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }",
///     "nothing.ptx",
/// )?;
/// let timings = image.timings("nothing")?;
/// assert_eq!(timings.len(), margay::inspect::passes().count());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The pass.
    pub pass: &'static str,
    /// Duration of the pass.
    pub time: Duration,
    /// Number of basic blocks after the pass.
    pub blocks: usize,
    /// Number of instructions after the pass.
    pub instructions: usize,
}

/// How often [`Inspection::wide_timings`] compiles a kernel.
const RUNS: usize = 5;

/// The generated code of a function, as text.
///
/// ```
/// use margay::inspect::{Inspection, Language};
///
/// let image = Inspection::load(
///     b".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }",
///     "nothing.ptx",
/// )?;
/// let listings = image.generated("nothing", Language::Clif)?;
/// assert_eq!(listings[0].title, "nothing, CTA form");
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Listing {
    /// The title of the text, for example the function's name and the form of the code.
    pub title: String,
    /// The text.
    pub text: String,
}

/// The languages in which generated code can be printed.
///
/// ```
/// use margay::inspect::{Inspection, Language};
///
/// let image = Inspection::load(
///     b".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }",
///     "nothing.ptx",
/// )?;
/// let code = image.generated("nothing", Language::Assembly)?;
/// assert!(!code[0].text.is_empty());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// The vector IR of the program for whole CTAs.
    Vir,
    /// The code generator's own intermediate representation, before optimisation.
    Clif,
    /// Assembly code of the host's processor.
    Assembly,
}

/// An image that is loaded for inspection.
///
/// ```
/// use margay::inspect::Inspection;
///
/// let image = Inspection::load(
///     b".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }",
///     "nothing.ptx",
/// )?;
/// assert!(image.behind("nothing", "simplify")?.contains("nothing"));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug)]
pub struct Inspection {
    module: Module,
}

impl Inspection {
    /// Loads PTX text, any image that contains PTX, or a module in the text form of the IR. Diagnostics show `name` as
    /// the file name.
    ///
    /// # Errors
    ///
    /// Returns the errors of loading an image. For a module in the text form of the IR, the error
    /// contains the position of a syntax error, or the problems that the verifier has found.
    pub fn load(image: &[u8], name: &str) -> Result<Inspection> {
        if let Some(text) = ir_text(image) {
            return Ok(Inspection {
                module: ir_module(text, name)?,
            });
        }
        let options = LoadOptions {
            name: Some(name.to_owned()),
            ..LoadOptions::default()
        };
        let module = linked(&[image], &options, name, &mut String::new())?;
        Ok(Inspection { module })
    }

    /// Returns the names of the kernels and functions that have a body, in the order of the module.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let bodies = self.module.functions.values().filter(|f| f.has_body());
        bodies.map(|function| function.name.as_str())
    }

    /// Returns the whole module after lowering, as text.
    pub fn module(&self) -> String {
        self.module.to_string()
    }

    /// Returns a function after lowering, as text.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such function with a body.
    pub fn lowered(&self, function: &str) -> Result<String> {
        Ok(self.module.functions[self.find(function)?].to_string())
    }

    /// Returns a function after a pass, as text.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such pass, or no such function with a body; [`Error::Internal`] if a pass
    /// panics.
    pub fn behind(&self, function: &str, pass: &str) -> Result<String> {
        known_pass(pass)?;
        let id = self.find(function)?;
        guarded(|| Ok(pass::prepare(&self.module, id, Some(pass)).to_string()))
    }

    /// Returns a function after a pass as text, with comments that state which values are uniform for a launch, a CTA
    /// or a warp, and which are affine. If `block` is given, the analysis assumes blocks of this shape. Otherwise the
    /// analysis uses only the block shape that the kernel declares, if any.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such pass, or no such function with a body; [`Error::Internal`] if a pass
    /// panics.
    pub fn uniformity(
        &self,
        function: &str,
        pass: &str,
        block: Option<[u32; 3]>,
    ) -> Result<String> {
        known_pass(pass)?;
        let id = self.find(function)?;
        guarded(|| {
            let prepared = pass::prepare(&self.module, id, Some(pass));
            let assumptions = match block {
                Some(shape) => Assumptions::of_block(shape),
                None => Assumptions::of(&prepared),
            };
            let notes = UniformityNotes {
                function: &prepared,
                uniformity: &Uniformity::new(&prepared, assumptions),
            };
            Ok(with_notes(&prepared, &notes))
        })
    }

    /// Runs all passes on a function and returns the duration of each pass.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such function with a body; [`Error::Internal`] if a pass panics.
    pub fn timings(&self, function: &str) -> Result<Vec<Timing>> {
        let mut timings = Vec::new();
        let count = |f: &Function| f.blocks().iter().map(|&b| f.insts(b).len()).sum();
        let id = self.find(function)?;
        guarded(|| {
            pass::prepare_watched(&self.module, id, None, |pass, time, function| {
                timings.push(Timing {
                    pass: pass.name,
                    time,
                    blocks: function.blocks().len(),
                    instructions: count(function),
                });
            });
            Ok(())
        })?;
        Ok(timings)
    }

    /// Compiles a kernel with the back end for wide vectors several times, and returns the shortest time of each stage and
    /// the size of its result: the number of instructions; after the last stage, the number of bytes of code. Returns
    /// nothing if this host has no such vectors or the back end does not support the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such function with a body; [`Error::Internal`] if there is no code generator for
    /// this machine, or if the compiler panics.
    pub fn wide_timings(&self, function: &str) -> Result<Vec<Timing>> {
        let id = self.find(function)?;
        guarded(|| {
            let compiler = compiler(Caching::Off)?;
            let kernel = match CompiledKernel::new(&self.module, id) {
                Ok(kernel) if kernel.function.kernel.is_some() => kernel,
                _ => return Ok(Vec::new()),
            };
            let mut best = compiler.wide_stages(&kernel);
            for _ in 1..RUNS {
                for (best, again) in best.iter_mut().zip(compiler.wide_stages(&kernel)) {
                    best.time = best.time.min(again.time);
                }
            }
            let timings = best.into_iter().map(|stage| Timing {
                pass: stage.name,
                time: stage.time,
                blocks: stage.blocks,
                instructions: stage.instructions,
            });
            Ok(timings.collect())
        })
    }

    /// Returns the code generated for a function: the CTA form and, if its threads wait for each other, the warp form
    /// of each region. If no native code can be generated, the text states the reason.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such function with a body; [`Error::Internal`] if there is no code generator
    /// for this machine, or if the compiler panics.
    pub fn generated(&self, function: &str, language: Language) -> Result<Vec<Listing>> {
        let id = self.find(function)?;
        guarded(|| self.listings(function, id, language))
    }

    fn listings(&self, function: &str, id: FuncId, language: Language) -> Result<Vec<Listing>> {
        let compiler = compiler(Caching::Off)?;
        let kernel = match CompiledKernel::new(&self.module, id) {
            Ok(kernel) => kernel,
            Err(why) => {
                return Ok(vec![Listing {
                    title: format!("{function}, CTA form"),
                    text: format!("; {why}\n"),
                }]);
            }
        };
        let text = |sync_point: Option<SyncPoint>| {
            let made = match language {
                Language::Vir => compiler.vir(&kernel),
                Language::Clif => compiler.clif(&kernel, sync_point),
                Language::Assembly => compiler.assembly(&kernel, sync_point),
            };
            made.unwrap_or_else(|error: CompileError| format!("; {error}\n"))
        };
        let mut listings = vec![Listing {
            title: format!("{function}, CTA form"),
            text: text(None),
        }];
        // The vector IR has a CTA form only.
        if kernel.has_sync_points() && language != Language::Vir {
            for number in 0..kernel.regions.resume_points.len() as u32 {
                listings.push(Listing {
                    title: format!("{function}, warp form, region {number}"),
                    text: text(Some(SyncPoint(number))),
                });
            }
        }
        Ok(listings)
    }

    /// Returns a text with the reasons why the compiler does not generate faster code for a
    /// function. If no native code can be generated for the function, the text may contain only the
    /// reason for this. Otherwise, the first line of the text states the largest chunk width for
    /// which code is compiled. This width is halved as long as the code is too large
    /// (`narrow-code`). Each further line states a reason, and how often the reason occurs in the
    /// code for one-dimensional blocks whose size is a multiple of the chunk width.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no such function with a body; [`Error::Internal`] if there is no code generator
    /// for this machine, or if the compiler panics.
    pub fn fallbacks(&self, function: &str) -> Result<String> {
        let id = self.find(function)?;
        guarded(|| self.reasons(id))
    }

    fn reasons(&self, id: FuncId) -> Result<String> {
        let compiler = compiler(Caching::Off)?;
        let mut text = String::new();
        let interpreted = |why: &CompileError| {
            let reason = why.fallback();
            format!("{} x1: {} ({why})\n", reason.name(), reason.about())
        };
        let kernel = match CompiledKernel::new(&self.module, id) {
            Ok(kernel) => kernel,
            Err(why) => return Ok(interpreted(&why)),
        };
        let widths = kernel.widths(compiler);
        let specialisation = Specialisation::of([widths.wide, 1, 1], widths);
        let specialisation = specialisation.trusted(compiler.isolates());
        let made = if kernel.function.kernel.is_none() {
            kernel.device(compiler)
        } else if !kernel.has_sync_points() {
            kernel.cta(compiler, specialisation)
        } else {
            let phases = kernel.phases(compiler, specialisation);
            phases.or_else(|_| match kernel.check_regions(compiler) {
                Ok(()) => kernel.region(compiler, SyncPoint::START),
                Err(_) => kernel.joint(compiler),
            })
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "lanes per chunk: {}", widths.wide);
        if let Err(why) = made {
            text.push_str(&interpreted(&why));
        }
        for (why, count) in kernel.fallbacks.all() {
            let about = kernel.fallbacks.explain(why);
            let _ = writeln!(text, "{} x{count}: {about}", why.name());
        }
        Ok(text)
    }

    fn find(&self, name: &str) -> Result<FuncId> {
        let id = self.module.by_name.get(name).copied();
        let id = id.filter(|&id| self.module.functions[id].has_body());
        id.ok_or_else(|| {
            let names: Vec<&str> = self.functions().collect();
            Error::NotFound(format!(
                "no function `{name}` with a body; the functions are {}",
                listed(&names)
            ))
        })
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Returns the syntax tree of a PTX text, before names are resolved and instructions are checked. Diagnostics show
/// `name` as the file name.
///
/// # Errors
///
/// [`Error::InvalidPtx`] with the syntax errors.
///
/// ```
/// let tree = margay::inspect::syntax_tree(".version 7.0 .target sm_80 .entry stop() { trap; }", "a.ptx")?;
/// assert!(tree.contains("    body\n      instruction trap\n"));
/// # Ok::<(), margay::Error>(())
/// ```
pub fn syntax_tree(text: &str, name: &str) -> Result<String> {
    let parsed = margay_frontend::parse(SourceFile::new(name, text));
    if parsed.has_errors() {
        let rendered: Vec<String> = parsed
            .diagnostics
            .iter()
            .map(|problem| problem.render(&parsed.source, Style::Plain))
            .collect();
        return Err(Error::InvalidPtx {
            log: rendered.concat(),
        });
    }
    Ok(margay_frontend::ast::tree(&parsed.module))
}

fn known_pass(name: &str) -> Result<()> {
    if passes().any(|pass| pass.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = passes().map(|pass| pass.name).collect();
    let names = listed(&names);
    Err(Error::NotFound(format!(
        "no pass `{name}`; the passes are {names}"
    )))
}

/// Returns `image` as text if it is a module in the text form of the IR.
fn ir_text(image: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(image).ok()?;
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with("//"))?;
    first.starts_with("module version ").then_some(text)
}

fn ir_module(text: &str, name: &str) -> Result<Module> {
    let wrong = |log: String| Error::InvalidPtx { log };
    let module = parse::module(text).map_err(|error| wrong(format!("{name}:{error}")))?;
    let problems = verify::module(&module);
    if problems.is_empty() {
        return Ok(module);
    }
    let mut log = String::new();
    for problem in problems.iter().take(20) {
        // Writing to a string does not fail.
        let _ = writeln!(log, "{name}: {problem}");
    }
    Err(wrong(log))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code generator cannot translate an address of 128 bits. The verifier and the frontend
    /// reject such an address, so this test passes the IR directly to the code generator.
    #[test]
    fn a_panic_of_the_compiler_becomes_an_error() {
        let text = "module version 8.0 target sm_80

fn0 = kernel @k registers 4 {
  parameters 16
  parameter @p offset 0 size 16 align 16
block0:
  v0: b64 = param.addr.u64 0
  v1: b128 = ld.b128{space:param} v0
  v2: b32 = const.b32 0x0
  st.u32{space:global} v1, v2
  exit
}
";
        let module = parse::module(text).expect("the text form of IR");
        let image = Inspection { module };
        let made = image.generated("k", Language::Assembly);
        assert!(matches!(made, Err(Error::Internal(_))), "{made:?}");
        let made = image.fallbacks("k");
        assert!(matches!(made, Err(Error::Internal(_))), "{made:?}");
    }

    /// The addresses and the condition of each load differ between lanes, so the code of each load
    /// is long. If only the number of IR instructions counted, chunks of 32 lanes would be
    /// permitted. The wide back end refuses the volatile store.
    #[test]
    fn vector_code_that_is_too_large_is_compiled_for_narrower_chunks() {
        let step = "and.b32 %r1, %r1, 252; cvt.u64.u32 %a1, %r1; add.u64 %a1, %a0, %a1; ld.global.u32 %r1, [%a1];\n";
        let text = format!(
            ".version 8.0 .target sm_80 .address_size 64
            .visible .entry k(.param .u64 at) {{
                .reg .b64 %a<2>; .reg .b32 %r<3>; .reg .pred %p;
                ld.param.u64 %a0, [at];
                mov.u32 %r0, %tid.x;
                and.b32 %r1, %r0, 5;
                setp.ne.u32 %p, %r1, 0;
                @!%p bra past;
                {}
            past:
                shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
                mad.wide.u32 %a1, %r0, 4, %a0;
                st.volatile.global.u32 [%a1], %r2;
                ret;
            }}",
            step.repeat(250)
        );
        let image = Inspection::load(text.as_bytes(), "test.ptx").expect("valid PTX");
        let reasons = image.fallbacks("k").expect("a code generator");
        assert!(reasons.starts_with("lanes per chunk: 32\n"), "{reasons}");
        assert!(reasons.contains("narrow-code x"), "{reasons}");
        assert!(!reasons.contains("slices-"), "{reasons}");
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512dq") {
            assert!(reasons.contains("wide-refused x"), "{reasons}");
            assert!(
                reasons.contains("(`a strong access` is not vectorised)"),
                "{reasons}"
            );
        }
    }

    #[test]
    fn only_fences_for_other_host_threads_are_instructions() {
        let is_x86 = cfg!(target_arch = "x86_64");
        let fences = [
            ("membar.cta", false),
            ("fence.sc.cta", false),
            ("fence.acq_rel.cta", false),
            ("fence.acq_rel.cluster", false),
            ("fence.acq_rel.gpu", !is_x86),
            ("fence.acquire.sys", !is_x86),
            ("membar.gl", true),
            ("fence.sc.sys", true),
        ];
        for (fence, is_instruction) in fences {
            let text = format!(
                ".version 8.6 .target sm_90 .address_size 64
                .visible .entry k(.param .u64 at) {{
                    .reg .b64 %a; .reg .b32 %x;
                    ld.param.u64 %a, [at];
                    ld.global.u32 %x, [%a]; {fence}; st.global.u32 [%a+4], %x;
                    ret;
                }}"
            );
            let image = Inspection::load(text.as_bytes(), "test.ptx").expect("valid PTX");
            let code = image
                .generated("k", Language::Clif)
                .expect("a code generator");
            let words = code
                .iter()
                .flat_map(|listing| listing.text.split_whitespace());
            let has_word = |word| words.clone().any(|one| one == word);
            assert!(has_word("function"), "no CLIF");
            assert_eq!(has_word("fence"), is_instruction, "{fence}");
            assert_eq!(has_word("sequence_point"), !is_instruction, "{fence}");
        }
    }
}
