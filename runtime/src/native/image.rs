//! Loading: bytes to modules, modules to kernels at addresses.

use std::sync::{Arc, OnceLock};

use margay_frontend::container::{self, select_ptx};
use margay_frontend::diagnostic::Style;
use margay_frontend::{Diagnostic, Parsed, SourceFile};
use margay_ir::entity::{Entity, SymbolId};
use margay_ir::function::Linkage;
use margay_ir::interp::Code;
use margay_ir::mods::StateSpace;
use margay_ir::module::{Module, RelocTarget};
use margay_jit::Compiler;

use super::cache::ImageCache;
use super::kernel::{Interpreted, NativeCode, PtxKernel};
use super::link;
use crate::engine::{
    BoundImage, Engine, EngineChoice, Image, KernelInfo, LoadOptions, LoadedImage, Loader,
    VariableInfo,
};
use crate::error::{Error, Result};

/// Handle of function 0 of every module; function `i` is 16 bytes further each. Not a canonical
/// address, so no data pointer can equal one.
pub(super) const FUNCTION_BASE: u64 = 0x7ff0_0000_0000_0000;

/// Loads PTX from any image that holds some.
#[derive(Debug)]
pub(crate) struct PtxLoader {
    choice: EngineChoice,
    cache: ImageCache,
}

impl PtxLoader {
    /// A loader whose kernels run as `choice` says.
    pub(crate) fn new(choice: EngineChoice) -> PtxLoader {
        PtxLoader {
            choice,
            cache: ImageCache::default(),
        }
    }
}

/// The compiler that all kernels share. `MARGAY_LANES` sets how many lanes of a warp run side by side (1,
/// 4, 8, 16 or 32) where the kernel's own best is not wanted.
pub(crate) fn compiler() -> Result<&'static Compiler> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    let made = COMPILER.get_or_init(|| {
        let lanes = std::env::var("MARGAY_LANES");
        let lanes = lanes.ok().and_then(|text| text.parse().ok());
        let compiler = Compiler::new().map_err(|error| error.to_string())?;
        Ok(compiler.with_width(lanes))
    });
    made.as_ref()
        .map_err(|error| Error::Internal(error.clone()))
}

impl Loader for PtxLoader {
    fn load(&self, image: Image<'_>, options: &LoadOptions) -> Result<Arc<dyn LoadedImage>> {
        let key = self.cache.key(&image, options);
        if let Some(known) = self.cache.find(key.0) {
            return Ok(known);
        }
        let mut log = String::new();
        let name = options.name.clone().unwrap_or_else(|| "image.ptx".into());
        let module = match image {
            Image::Ptx(text) => module_of(SourceFile::new(name, text), &mut log)?,
            Image::Bytes(bytes) => linked(&[bytes], options, &name, &mut log)?,
            Image::Linked(images) => linked(images, options, &name, &mut log)?,
        };
        let image = Arc::new(PtxImage::new(module, self.choice, log));
        self.cache.keep(key, &image);
        Ok(image)
    }
}

/// The module of one or several images.
pub(crate) fn linked(
    images: &[&[u8]],
    options: &LoadOptions,
    name: &str,
    log: &mut String,
) -> Result<Module> {
    let selection = select_ptx(images, options.capability).map_err(image_error)?;
    let mut modules = Vec::new();
    for (index, text) in selection.texts.iter().enumerate() {
        let name = if selection.texts.len() == 1 {
            name.to_owned()
        } else {
            format!("{name}#{index}")
        };
        modules.push(module_of(SourceFile::new(name, text.text.as_str()), log)?);
    }
    let mut module = link::link(modules)?;
    if let Some(entry) = &selection.device_runtime
        && !link::unresolved(&module).is_empty()
    {
        let text = entry.text().map_err(image_error)?;
        let runtime = module_of(SourceFile::new("libcudadevrt.ptx", text.text), log)?;
        module = link::link(vec![module, runtime])?;
    }
    Ok(module)
}

fn image_error(error: container::ImageError) -> Error {
    use container::ImageError as E;
    match &error {
        E::NoPtx(_) | E::Cubin(_) => Error::NoBinary(error.to_string()),
        _ => Error::InvalidImage(error.to_string()),
    }
}

/// Parses and lowers one text.
fn module_of(source: SourceFile, log: &mut String) -> Result<Module> {
    let parsed: Parsed = margay_frontend::parse(source);
    let mut note = |problems: &[Diagnostic]| {
        for diagnostic in problems.iter().filter(|d| !d.is_error()) {
            log.push_str(&diagnostic.summary(&parsed.source));
            log.push('\n');
        }
    };
    note(&parsed.diagnostics);
    let errors = if parsed.has_errors() {
        parsed.diagnostics.clone()
    } else {
        let resolution = margay_frontend::resolve::resolve(&parsed);
        note(&resolution.diagnostics);
        match margay_frontend::lower(&parsed, &resolution) {
            Ok(module) => return Ok(module),
            Err(errors) => errors,
        }
    };
    let rendered: Vec<String> = errors
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .take(20)
        .map(|diagnostic| diagnostic.render(&parsed.source, Style::Plain))
        .collect();
    Err(Error::InvalidPtx {
        log: rendered.join("\n"),
    })
}

/// A loaded module.
pub(super) struct PtxImage {
    module: Arc<Module>,
    code: Arc<Code>,
    interpreted: Arc<Interpreted>,
    /// Native code of each function that has been launched.
    native: Arc<NativeCode>,
    choice: EngineChoice,
    kernels: Vec<KernelInfo>,
    variables: Vec<VariableInfo>,
    /// The symbol of each variable.
    symbols: Vec<SymbolId>,
    log: String,
}

impl PtxImage {
    fn new(module: Module, choice: EngineChoice, log: String) -> PtxImage {
        let code = Code::new(&module);
        let mut variables = Vec::new();
        let mut symbols = Vec::new();
        for (id, symbol) in module.symbols.iter() {
            if symbol.space == StateSpace::Shared || symbol.linkage == Linkage::Extern {
                continue;
            }
            symbols.push(id);
            variables.push(VariableInfo {
                name: symbol.name.clone(),
                size: symbol.size,
                align: u64::from(symbol.align),
                constant: symbol.space == StateSpace::Const,
                managed: symbol.managed,
                visible: symbol.owner.is_none(),
            });
        }
        let kernels = module
            .kernels()
            .filter(|(_, function)| function.has_body())
            .map(|(id, _)| super::kernel::info(&module, &code, id))
            .collect();
        PtxImage {
            native: Arc::new(NativeCode::new(module.functions.len())),
            module: Arc::new(module),
            code: Arc::new(code),
            interpreted: Arc::default(),
            choice,
            kernels,
            variables,
            symbols,
            log,
        }
    }

    /// Address of each symbol; shared ones are placed by each kernel.
    fn addresses(&self, variables: &[u64]) -> Vec<u64> {
        let mut all = vec![0; self.module.symbols.len()];
        for (symbol, &address) in self.symbols.iter().zip(variables) {
            all[symbol.index()] = address;
        }
        all
    }

    /// Initial bytes of a variable with addresses filled in.
    fn initial(&self, id: SymbolId, addresses: &[u64]) -> Vec<u8> {
        let symbol = &self.module.symbols[id];
        let mut bytes = symbol.init.clone();
        for reloc in &symbol.relocs {
            let base = match reloc.target {
                RelocTarget::Symbol { symbol, .. } => {
                    addresses.get(symbol.index()).copied().unwrap_or(0)
                }
                RelocTarget::Func(func) => FUNCTION_BASE + 16 * u64::from(func.0),
            };
            let value = base.wrapping_add(reloc.addend as u64) >> u32::from(reloc.shift).min(63);
            let (start, size) = (reloc.offset as usize, usize::from(reloc.size).min(8));
            if let Some(slot) = bytes.get_mut(start..start + size) {
                slot.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        bytes
    }
}

impl LoadedImage for PtxImage {
    fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    fn variables(&self) -> &[VariableInfo] {
        &self.variables
    }

    fn log(&self) -> &str {
        &self.log
    }

    fn bind(&self, variables: &[u64]) -> Result<BoundImage> {
        let addresses = Arc::new(self.addresses(variables));
        let initial = self
            .symbols
            .iter()
            .map(|&id| self.initial(id, &addresses))
            .collect();
        let kernels = self
            .module
            .kernels()
            .filter(|(_, function)| function.has_body())
            .zip(&self.kernels)
            .map(|((id, _), info)| {
                let kernel = PtxKernel {
                    module: Arc::clone(&self.module),
                    interpreted: Arc::clone(&self.interpreted),
                    native: Arc::clone(&self.native),
                    code: Arc::clone(&self.code),
                    choice: self.choice,
                    id,
                    info: info.clone(),
                    addresses: Arc::clone(&addresses),
                    ready: OnceLock::new(),
                };
                Arc::new(kernel) as Arc<dyn Engine>
            })
            .collect();
        Ok(BoundImage { initial, kernels })
    }
}
