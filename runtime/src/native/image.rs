//! Loads images: reads modules from bytes, and creates kernels from modules and the addresses of their variables.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use margay_frontend::container::{self, Selection, select_ptx};
use margay_frontend::diagnostic::Style;
use margay_frontend::resolve::Resolution;
use margay_frontend::{Diagnostic, LazyModule, Parsed, SourceFile};
use margay_ir::entity::{Entity, FuncId, PrimaryMap, SecondaryMap, SymbolId};
use margay_ir::function::Linkage;
use margay_ir::module::{Module, RelocTarget, Symbol};
use margay_ir::pass::instrument::Request;
use margay_jit::{Compiler, DiskCache, Wide};
use margay_ops::mods::StateSpace;
use rustc_hash::FxHashMap;

use super::bodies::Bodies;
use super::cache::ImageCache;
use super::compile;
use super::disk::Caching;
use super::kernel::{NativeCode, Probed, PtxKernel, Source};
use super::kernel_store::KernelStore;
use super::link;
use super::shared::Symbols;
use crate::engine::{
    BoundImage, Engine, EngineChoice, Image, KernelInfo, LoadOptions, LoadedImage, Loader,
    VariableInfo,
};
use crate::environment::narrow_addresses;
use crate::error::{Error, Result};
use crate::fault::FloatMode;
use crate::observe::Tools;
use crate::probe::{ProbedKernel, Prober, PtxText, Rewritten};

/// The first handle that is assigned to a function. Handles are non-canonical addresses, so they
/// differ from all data pointers.
const FUNCTION_BASE: u64 = 0x7ff0_0000_0000_0000;
/// The range of the handles that fit in 32-bit addresses ([`narrow_addresses`]). No 32-bit address of global, shared
/// or local memory is in this range.
const NARROW_HANDLES: Range<u64> = 0x10_0000..0x100_0000;

/// Reserves the handles of the `count` functions of a module, and returns the handle of the function with ID 0. The
/// handle of each further function is 16 larger than that of the function before it. No other module of the process has
/// these handles, so a call through a handle of another module is an error.
fn reserve_handles(count: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FUNCTION_BASE);
    static NEXT_NARROW: AtomicU64 = AtomicU64::new(NARROW_HANDLES.start);
    let bytes = 16 * (count as u64 + 1);
    if narrow_addresses() {
        let after = |next: u64| Some(next + bytes).filter(|end| *end <= NARROW_HANDLES.end);
        let order = Ordering::Relaxed;
        if let Ok(base) = NEXT_NARROW.fetch_update(order, order, after) {
            return base;
        }
    }
    NEXT.fetch_add(bytes, Ordering::Relaxed)
}

/// Loads images that contain PTX: PTX text, fat binaries and linked images.
pub(crate) struct PtxLoader {
    choice: EngineChoice,
    caching: Caching,
    /// The checks that the checking tools of the runtime request.
    request: Request,
    tools: Arc<Tools>,
    prober: Option<Arc<dyn Prober>>,
    cache: ImageCache,
}

impl PtxLoader {
    /// Creates a loader whose kernels run on the engine `choice`.
    pub(crate) fn new(choice: EngineChoice) -> PtxLoader {
        PtxLoader {
            choice,
            caching: Caching::default(),
            request: Request::default(),
            tools: Arc::default(),
            prober: None,
            cache: ImageCache::default(),
        }
    }

    /// Returns this loader with the disk cache configuration `caching`.
    pub(crate) fn caching(self, caching: Caching) -> PtxLoader {
        PtxLoader { caching, ..self }
    }

    /// Returns a loader that compiles its kernels with the instrumentation in `request`. In a
    /// checking run, the enabled checks determine `request`.
    pub(crate) fn observing(self, request: Request) -> PtxLoader {
        PtxLoader { request, ..self }
    }

    /// Returns this loader with `tools`, which observe the kernels that it loads.
    pub(crate) fn with_tools(self, tools: Arc<Tools>) -> PtxLoader {
        PtxLoader { tools, ..self }
    }

    /// Returns this loader with `prober`, which rewrites the PTX that it loads.
    pub(crate) fn with_prober(self, prober: Option<Arc<dyn Prober>>) -> PtxLoader {
        PtxLoader { prober, ..self }
    }
}

/// Returns the compiler that all kernels with this configuration of the disk cache share. `MARGAY_LANES` replaces the
/// chunk width that the compiler would choose for each kernel (1, 4, 8, 16 or 32 lanes). `MARGAY_JOINT=1` selects the
/// joint warp form for kernels with sync points. `MARGAY_WIDE` selects the hosts on which the wide back end compiles the
/// kernels that it supports ([`Wide`]): none (`0`), hosts with AVX2 (`1`), hosts with AVX2 without using AVX-512 (`avx2`),
/// or hosts with AVX-512 with code for one shape of blocks from the first launch on (`exact`).
pub(crate) fn compiler(caching: Caching) -> Result<&'static Compiler> {
    type Made = OnceLock<Result<Compiler, String>>;
    static WITH_DISK: Made = OnceLock::new();
    static WITHOUT: Made = OnceLock::new();
    let make = |cache: Option<DiskCache>| {
        let lanes = crate::environment::env("MARGAY_LANES");
        let lanes = lanes.and_then(|text| text.parse().ok());
        let compiler = Compiler::new().map_err(|error| error.to_string())?;
        let compiler = compiler.with_isolation(crate::environment::isolated());
        let joint = crate::environment::env("MARGAY_JOINT").as_deref() == Some("1");
        let wide = match crate::environment::env("MARGAY_WIDE").as_deref() {
            Some("0") => Wide::Off,
            Some("1") => Wide::Avx2,
            Some("avx2") => Wide::OnlyAvx2,
            Some("exact") => Wide::Exact,
            _ => Wide::default(),
        };
        let compiler = compiler.with_width(lanes).with_joint(joint).with_wide(wide);
        Ok(compiler.with_cache(cache))
    };
    let made = match caching {
        Caching::Configured => WITH_DISK.get_or_init(|| make(super::disk::configured())),
        Caching::Off => WITHOUT.get_or_init(|| make(None)),
    };
    made.as_ref()
        .map_err(|error| Error::Internal(error.clone()))
}

impl Loader for PtxLoader {
    fn load(&self, image: Image<'_>, options: &LoadOptions) -> Result<Arc<dyn LoadedImage>> {
        Ok(self.open(image, options)?)
    }
}

impl PtxLoader {
    /// Returns the loaded image from the cache of images in memory. If the cache does not contain
    /// it, loads the image and adds it to the cache.
    pub(super) fn open(&self, image: Image<'_>, options: &LoadOptions) -> Result<Arc<PtxImage>> {
        let key = self.cache.key(&image, options);
        if let Some(known) = self.cache.find(key.0) {
            return Ok(known);
        }
        let read = || {
            // The work below parses and folds floating-point constants.
            let _mode = FloatMode::of_device();
            let mut log = String::new();
            let name = options.name.clone().unwrap_or_else(|| "image.ptx".into());
            let mut texts = Texts {
                observes: self.tools.observe_kernels(),
                prober: self.prober.as_deref().filter(|_| !options.unprobed),
                probed: Vec::new(),
                log: &mut log,
            };
            let loaded = match image {
                Image::Ptx(text) => {
                    lazy(SourceFile::new(name, text), Externals::Define, &mut texts)?
                }
                Image::Bytes(bytes) => {
                    loaded(&[bytes], options, (&*name, Externals::Define), &mut texts)?
                }
                Image::Linked(images) => {
                    loaded(images, options, (&*name, Externals::Keep), &mut texts)?
                }
            };
            let probed = texts.probed;
            let kind = Kind {
                choice: self.choice,
                caching: self.caching,
                request: self.request,
                tools: Arc::clone(&self.tools),
            };
            Ok(PtxImage::new(loaded, kind, log).with_probes(probed))
        };
        let image = Arc::new(compile::run(read)?);
        self.cache.keep(key, &image);
        Ok(image)
    }
}

/// Prefix of the functions for grid barriers that NVIDIA's device runtime requires from a driver.
const COOPERATIVE: &str = "__cuda_syscall_CGS_";
/// PTX text that defines the functions whose names begin with [`COOPERATIVE`].
const COOPERATIVE_PTX: &str = include_str!("cooperative.ptx");

/// How the PTX texts of an image are read.
struct Texts<'a> {
    /// Whether the functions of the program contain an observation operation for each PTX instruction.
    observes: bool,
    prober: Option<&'a dyn Prober>,
    /// The kernels with probes.
    probed: Vec<ProbedKernel>,
    /// Receives warnings.
    log: &'a mut String,
}

impl Texts<'_> {
    /// Whether function bodies may be parsed when they are needed. Tools and probes need the whole text at once.
    fn reads_bodies_later(&self) -> bool {
        !self.observes && self.prober.is_none()
    }

    /// Returns a text of the program with its probes.
    fn probed(&mut self, source: SourceFile) -> SourceFile {
        let Some(prober) = self.prober else {
            return source;
        };
        let text = PtxText {
            name: source.name(),
            text: source.text(),
        };
        match prober.module(&text) {
            Some(Rewritten { text, kernels }) => {
                self.probed.extend(kernels);
                SourceFile::new(source.name(), text)
            }
            None => source,
        }
    }
}

/// Minimum length in bytes of a PTX text in a container whose function bodies are parsed when they are needed. Shorter
/// texts, and texts outside containers, are parsed when they are loaded, so that errors in them are reported at once.
const OUTLINED: usize = 64 << 10;

/// A parsed module.
enum Loaded {
    /// A module from a single PTX text; each of its functions is lowered when it is needed.
    Lazy(Box<LazyModule>),
    /// A module that was linked from several texts, or from one text and the device runtime; all its functions are
    /// lowered.
    Whole(Box<Module>),
}

/// Reads the modules of one or several images. If the images contain a single PTX text and no device
/// runtime, each function of the text is lowered when it is needed.
fn loaded(
    images: &[&[u8]],
    options: &LoadOptions,
    (name, externals): (&str, Externals),
    texts: &mut Texts<'_>,
) -> Result<Loaded> {
    let mut selection = select_ptx(images, options.capability).map_err(image_error)?;
    let is_long = |text: &str| text.len() >= OUTLINED && selection.in_containers;
    match selection.texts.as_mut_slice() {
        [text]
            if selection.device_runtime.is_none()
                && is_long(&text.text)
                && texts.reads_bodies_later() =>
        {
            let source = SourceFile::new(name, std::mem::take(&mut text.text));
            outlined(Arc::new(source), externals, texts.log)
        }
        [text] if selection.device_runtime.is_none() => {
            // The text can be hundreds of megabytes long, so it is not copied.
            lazy(
                SourceFile::new(name, std::mem::take(&mut text.text)),
                externals,
                texts,
            )
        }
        _ => {
            let module = link_selection(selection, name, texts, check_addresses)?;
            Ok(Loaded::Whole(Box::new(module)))
        }
    }
}

/// Reads and links the modules of one or several images.
pub(crate) fn linked(
    images: &[&[u8]],
    options: &LoadOptions,
    name: &str,
    log: &mut String,
) -> Result<Module> {
    let selection = select_ptx(images, options.capability).map_err(image_error)?;
    // The linked module is not run, so 32-bit addresses are accepted.
    let mut texts = Texts {
        observes: false,
        prober: None,
        probed: Vec::new(),
        log,
    };
    link_selection(selection, name, &mut texts, |_| Ok(()))
}

/// A function that returns an error if a module must not be loaded. Its argument states whether the module has 32-bit
/// addresses.
type Check = fn(bool) -> Result<()>;

/// Reads and links modules.
fn link_selection(
    selection: Selection<'_>,
    name: &str,
    texts: &mut Texts<'_>,
    check: Check,
) -> Result<Module> {
    let mut modules = Vec::new();
    let count = selection.texts.len();
    for (index, text) in selection.texts.into_iter().enumerate() {
        let name = if count == 1 {
            name.to_owned()
        } else {
            format!("{name}#{index}")
        };
        let source = texts.probed(SourceFile::new(name, text.text));
        modules.push(module_of(source, texts.log, (check, texts.observes))?);
    }
    let mut module = link::link(modules)?;
    if let Some(entry) = &selection.device_runtime
        && !link::unresolved(&module).is_empty()
    {
        let text = entry.text().map_err(image_error)?;
        let source = SourceFile::new("libcudadevrt.ptx", text.text);
        let runtime = module_of(source, texts.log, (check, false))?;
        let runtime = without_positions(runtime);
        module = link::link(vec![module, runtime])?;
    }
    if link::unresolved(&module)
        .iter()
        .any(|name| name.starts_with(COOPERATIVE))
    {
        let ours = module_of(
            SourceFile::new("cooperative.ptx", COOPERATIVE_PTX),
            texts.log,
            (check, false),
        )?;
        module = link::link(vec![module, without_positions(ours)])?;
    }
    Ok(module)
}

/// Removes the source positions of all instructions of a device runtime. Reports then name the instruction of the
/// program that calls the runtime, because inlined instructions without a position get the position of the call.
fn without_positions(mut module: Module) -> Module {
    for function in module.functions.values_mut() {
        function.dfg.locs = SecondaryMap::default();
    }
    module
}

fn image_error(error: container::ImageError) -> Error {
    use container::ImageError as E;
    match &error {
        E::NoPtx(_) | E::Cubin(_) => Error::NoBinary(error.to_string()),
        E::OutOfMemory { bytes } => no_memory(*bytes),
        _ => Error::InvalidImage(error.to_string()),
    }
}

/// Parses one PTX text and resolves the names in it. Appends warnings to `log`.
fn read(source: SourceFile, log: &mut String) -> Result<(Parsed, Resolution)> {
    let parsed: Parsed = margay_frontend::parse(source);
    let mut note = |problems: &[Diagnostic]| {
        for diagnostic in problems.iter().filter(|d| !d.is_error()) {
            log.push_str(&diagnostic.summary(&parsed.source));
            log.push('\n');
        }
    };
    note(&parsed.diagnostics);
    if parsed.has_errors() {
        return Err(invalid(&parsed.diagnostics, &parsed.source));
    }
    let resolution = margay_frontend::resolve::resolve(&parsed);
    note(&resolution.diagnostics);
    Ok((parsed, resolution))
}

/// Returns an error if a module has 32-bit addresses (`is_narrow`) and device memory has addresses above 4 GiB.
pub(super) fn check_addresses(is_narrow: bool) -> Result<()> {
    if is_narrow && !narrow_addresses() {
        let log = "the module has 32-bit addresses, which need device memory below 4 GiB: set MARGAY_ADDRESS_SIZE=32";
        return Err(Error::InvalidPtx {
            log: log.to_owned(),
        });
    }
    Ok(())
}

/// What the loader does with the external variables of a module that is not linked with other
/// modules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Externals {
    /// The module is a whole program, so its external variables become defined variables that
    /// contain zeros.
    Define,
    /// The module is the only input of a linker, so its external variables stay undefined. A kernel that uses an
    /// external variable cannot be launched.
    Keep,
}

/// Parses one PTX text and resolves the names in it. Each of its functions is lowered when it is
/// needed. If `externals` is [`Externals::Define`], defines the external variables of the text.
fn lazy(source: SourceFile, externals: Externals, texts: &mut Texts<'_>) -> Result<Loaded> {
    let source = texts.probed(source);
    let log = &mut *texts.log;
    let (parsed, resolution) = read(source, log)?;
    check_addresses(resolution.is_narrow())?;
    let source = Arc::clone(&parsed.source);
    let module = LazyModule::new(parsed, resolution);
    let module = module.map_err(|errors| invalid(&errors, &source))?;
    defined(module, externals, log)
}

/// Parses one PTX text without the bodies of its functions, which are parsed and lowered when they are needed.
fn outlined(source: Arc<SourceFile>, externals: Externals, log: &mut String) -> Result<Loaded> {
    let (module, warnings) = LazyModule::outline(Arc::clone(&source))
        .map_err(|diagnostics| invalid(&diagnostics, &source))?;
    for warning in warnings {
        log.push_str(&warning.summary(&source));
        log.push('\n');
    }
    check_addresses(module.is_narrow())?;
    defined(module, externals, log)
}

/// If `externals` is [`Externals::Define`], defines the external variables of a module.
fn defined(mut module: LazyModule, externals: Externals, log: &mut String) -> Result<Loaded> {
    if externals == Externals::Define {
        let defined = module.define_external_variables();
        let defined = defined.map_err(|unknown| Error::InvalidPtx {
            log: format!(
                "{}: no definition of the external variable `{}`, whose size is unknown",
                module.source().name(),
                unknown.join("`, `")
            ),
        })?;
        for name in defined {
            // Writing to a string does not fail.
            let _ = writeln!(
                log,
                "{}: warning: no definition of the external variable `{name}`; its bytes are zero",
                module.source().name()
            );
        }
    }
    Ok(Loaded::Lazy(Box::new(module)))
}

/// Parses the text of a loaded module again, for tools that observe the module's instructions.
pub(super) fn observed(text: &SourceFile) -> Result<Box<LazyModule>> {
    let again = SourceFile::new(text.name(), text.text());
    let (parsed, resolution) = read(again, &mut String::new())?;
    let module = LazyModule::new(parsed, resolution);
    let mut module = module.map_err(|errors| invalid(&errors, text))?;
    module.take_contents();
    Ok(Box::new(module.observed()))
}

/// Parses and lowers one PTX text.
fn module_of(
    source: SourceFile,
    log: &mut String,
    (check, observes): (Check, bool),
) -> Result<Module> {
    let (parsed, resolution) = read(source, log)?;
    check(resolution.is_narrow())?;
    let lowered = match observes {
        true => margay_frontend::lower_observed(&parsed, &resolution),
        false => margay_frontend::lower(&parsed, &resolution),
    };
    lowered.map_err(|errors| invalid(&errors, &parsed.source))
}

/// Returns the error for a failed allocation of `requested` bytes of host memory.
fn no_memory(requested: u64) -> Error {
    let free = crate::memory::address_space_left().unwrap_or(0);
    Error::OutOfMemory { requested, free }
}

/// Returns the error for a PTX text that has the diagnostics `problems`. The returned error
/// contains the text of the first 20 errors. If reading the text needs more memory than is
/// available, returns an out-of-memory error instead.
pub(super) fn invalid(problems: &[Diagnostic], source: &SourceFile) -> Error {
    if let Some(bytes) = problems.iter().find_map(Diagnostic::needed_bytes) {
        return no_memory(bytes);
    }
    let errors = problems.iter().filter(|diagnostic| diagnostic.is_error());
    let rendered: Vec<String> = errors
        .take(20)
        .map(|diagnostic| diagnostic.render(source, Style::Plain))
        .collect();
    Error::InvalidPtx {
        log: rendered.join("\n"),
    }
}

/// Returns the properties of a kernel with only its first `count` parameters.
fn without_added(kernel: &KernelInfo, count: usize) -> KernelInfo {
    let mut shown = kernel.clone();
    shown.params.truncate(count);
    let ends = shown.params.iter().map(|param| param.offset + param.size);
    shown.param_bytes = ends.max().unwrap_or(0);
    shown
}

/// The settings with which the kernels of an image are compiled and run.
struct Kind {
    choice: EngineChoice,
    caching: Caching,
    /// The checks that the checking tools of the runtime request.
    request: Request,
    tools: Arc<Tools>,
}

/// A loaded image with its kernels and variables.
pub(super) struct PtxImage {
    bodies: Arc<Bodies>,
    /// Native code of those kernels of the image that have been launched.
    native: Arc<NativeCode>,
    choice: EngineChoice,
    /// The kernels with the parameters that programs see.
    kernels: Vec<KernelInfo>,
    /// For each kernel with probes, by its index in `kernels`: its properties with all parameters, and its probes.
    probed: FxHashMap<usize, Arc<Probed>>,
    /// The IDs of the kernels' functions, in the order of `kernels`.
    functions: Vec<FuncId>,
    variables: Vec<VariableInfo>,
    /// The symbols of the variables, in the order of `variables`.
    symbols: Vec<SymbolId>,
    /// All symbols, with their initial contents.
    contents: PrimaryMap<SymbolId, Symbol>,
    /// Number of functions of the image, including kernels.
    count: usize,
    log: String,
}

impl PtxImage {
    fn new(loaded: Loaded, kind: Kind, log: String) -> PtxImage {
        let (request, varies) = (kind.request, kind.tools.observe_kernels());
        match loaded {
            Loaded::Whole(mut module) => {
                let contents = module.take_contents();
                let heads = Heads::new(&module, &contents, |id| module.functions[id].has_body());
                heads.image(contents, Bodies::whole(*module, request, varies), kind, log)
            }
            Loaded::Lazy(mut lazy) => {
                let contents = lazy.take_contents();
                let heads = Heads::new(lazy.module(), &contents, |id| lazy.is_defined(id));
                let is_stored = lazy.is_outlined() && !varies && request == Request::default();
                let store = is_stored.then(|| KernelStore::new(&lazy, kind.caching));
                let bodies = Bodies::lazy(lazy, request, varies).with_store(store.flatten());
                heads.image(contents, bodies, kind, log)
            }
        }
    }

    /// Returns this image with the probes of its kernels.
    fn with_probes(mut self, probed: Vec<ProbedKernel>) -> PtxImage {
        for kernel in probed {
            let found = self
                .kernels
                .iter()
                .position(|info| info.name == kernel.name);
            let Some(index) = found else { continue };
            let shown = without_added(&self.kernels[index], kernel.parameters);
            let complete = std::mem::replace(&mut self.kernels[index], shown);
            let probes = kernel.probes;
            self.probed
                .insert(index, Arc::new(Probed { complete, probes }));
        }
        self
    }

    /// Returns the address of each symbol. The address is 0 for an undefined symbol, and for a shared symbol, because
    /// each kernel assigns its own offsets to shared symbols.
    pub(super) fn addresses(&self, variables: &[u64]) -> Vec<u64> {
        let mut all = vec![0; self.contents.len()];
        for (symbol, &address) in self.symbols.iter().zip(variables) {
            all[symbol.index()] = address;
        }
        all
    }

    /// Returns the image's symbols together with `addresses`, which contains the address of each
    /// symbol in a context.
    pub(super) fn bound_symbols(&self, addresses: Vec<u64>) -> Symbols {
        let all = self.contents.values().zip(&addresses);
        let constants = all.filter(|(symbol, _)| symbol.space == StateSpace::Const);
        let constants = constants.map(|(symbol, &address)| (address, symbol.size));
        let constants = constants.collect();
        Symbols::new(addresses, constants, reserve_handles(self.count))
    }

    /// Returns the data from which the code of the kernel `index` is compiled.
    pub(super) fn source(&self, index: usize, symbols: Arc<Symbols>) -> Source {
        Source {
            bodies: Arc::clone(&self.bodies),
            native: Arc::clone(&self.native),
            choice: self.choice,
            id: self.functions[index],
            info: self.complete_info(index).clone(),
            symbols,
        }
    }

    /// Returns the properties of a kernel with all its parameters.
    fn complete_info(&self, index: usize) -> &KernelInfo {
        match self.probed.get(&index) {
            Some(probed) => &probed.complete,
            None => &self.kernels[index],
        }
    }

    /// Returns the initial bytes of a variable, into which the addresses that its relocations refer
    /// to have been inserted.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the bytes cannot be allocated; [`Error::UnresolvedSymbol`] if they contain the address
    /// of a variable that no linked module defines.
    fn initial(&self, id: SymbolId, addresses: &[u64], function_base: u64) -> Result<Vec<u8>> {
        let symbol = &self.contents[id];
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(symbol.init.len());
        reserved.map_err(|_| no_memory(symbol.init.len() as u64))?;
        bytes.extend_from_slice(&symbol.init);
        for reloc in &symbol.relocs {
            let base = match reloc.target {
                RelocTarget::Symbol { symbol, .. } => {
                    let target = &self.contents[symbol];
                    if target.is_undefined() {
                        return Err(Error::UnresolvedSymbol(target.name.clone()));
                    }
                    addresses.get(symbol.index()).copied().unwrap_or(0)
                }
                RelocTarget::Func(func) => function_base + 16 * u64::from(func.0),
            };
            let value = base.wrapping_add(reloc.addend as u64) >> u32::from(reloc.shift).min(63);
            let (start, size) = (reloc.offset as usize, usize::from(reloc.size).min(8));
            if let Some(slot) = bytes.get_mut(start..start + size) {
                slot.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        Ok(bytes)
    }
}

/// The properties of an image that do not depend on the bodies of its functions.
struct Heads {
    kernels: Vec<KernelInfo>,
    functions: Vec<FuncId>,
    variables: Vec<VariableInfo>,
    symbols: Vec<SymbolId>,
    /// Number of functions of the image, including kernels.
    count: usize,
}

impl Heads {
    fn new(
        module: &Module,
        contents: &PrimaryMap<SymbolId, Symbol>,
        is_defined: impl Fn(FuncId) -> bool,
    ) -> Heads {
        let mut heads = Heads {
            kernels: Vec::new(),
            functions: Vec::new(),
            variables: Vec::new(),
            symbols: Vec::new(),
            count: module.functions.len(),
        };
        for (id, symbol) in contents.iter() {
            if symbol.space == StateSpace::Shared || symbol.linkage == Linkage::Extern {
                continue;
            }
            heads.symbols.push(id);
            heads.variables.push(VariableInfo {
                name: symbol.name.clone(),
                size: symbol.size,
                align: u64::from(symbol.align),
                constant: symbol.space == StateSpace::Const,
                managed: symbol.managed,
                visible: symbol.owner.is_none(),
                reference: symbol.reference,
            });
        }
        let constants = contents
            .values()
            .filter(|symbol| symbol.space == StateSpace::Const)
            .map(|symbol| u32::try_from(symbol.size).unwrap_or(u32::MAX))
            .fold(0, u32::saturating_add);
        for (id, _) in module.kernels().filter(|(id, _)| is_defined(*id)) {
            heads.functions.push(id);
            heads
                .kernels
                .push(super::kernel::info(module, id, constants));
        }
        heads
    }

    fn image(
        self,
        contents: PrimaryMap<SymbolId, Symbol>,
        bodies: Bodies,
        kind: Kind,
        log: String,
    ) -> PtxImage {
        PtxImage {
            bodies: Arc::new(bodies),
            count: self.count,
            native: Arc::new(NativeCode::new(self.count, kind.caching, kind.tools)),
            choice: kind.choice,
            kernels: self.kernels,
            probed: FxHashMap::default(),
            functions: self.functions,
            variables: self.variables,
            symbols: self.symbols,
            contents,
            log,
        }
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
        let addresses = self.addresses(variables);
        let symbols = Arc::new(self.bound_symbols(addresses.clone()));
        let initial = self
            .symbols
            .iter()
            .map(|&id| self.initial(id, &addresses, symbols.function_base))
            .collect::<Result<_>>()?;
        let kernels = (0..self.kernels.len())
            .map(|index| {
                let source = self.source(index, Arc::clone(&symbols));
                let probed = self.probed.get(&index);
                let probed = probed.map(|probed| (self.kernels[index].clone(), Arc::clone(probed)));
                Arc::new(PtxKernel::new(source, probed)) as Arc<dyn Engine>
            })
            .collect();
        Ok(BoundImage { initial, kernels })
    }
}
