//! Lowers the header, the variables and the function heads of a module, and starts the lowering of bodies.

use std::ops::{Deref, DerefMut};

use margay_ir::entity::{FuncId, SymbolId};
use margay_ir::function::{Function, KernelData, KernelParam, Linkage, Signature};
use margay_ir::module::{self as ir, Loc, Module, RelocTarget, Symbol, TextInstruction};
use margay_ops::mods::StateSpace as Space;
use margay_ops::texture::{Reference, ReferenceKind};
use margay_ops::types::{OpType, Type};
use margay_ptx::{Target, Variant};
use rustc_hash::FxHashMap;

use super::function::FunctionLowering;
use super::{Lowered, data, op_type};
use crate::ast::{
    self, Attribute, DirectiveKind, FunctionKind, Id, InitializerKind, Item, Name, PropertyValue,
    ScalarType, StateSpace, Statement, Variable,
};
use crate::resolve::Resolution;
use crate::{Code, Diagnostic, Parsed};

/// The state while a module is lowered: the parsed text, the result of resolution, and the state
/// that all functions share.
pub(super) struct ModuleLowering<'p> {
    pub(super) parsed: &'p Parsed,
    pub(super) ast: &'p ast::Module,
    pub(super) resolution: &'p Resolution,
    pub(super) state: ModuleState,
}

/// The IR module and the tables that persist from the lowering of one function to the lowering of
/// the next.
#[derive(Debug, Default)]
pub(super) struct ModuleState {
    pub(super) module: Module,
    /// For the name of each module-scope variable, the symbol of the variable in the IR.
    pub(super) symbols: FxHashMap<Name, SymbolId>,
    /// The symbol of each variable that is declared in a function body but exists as long as the module.
    pub(super) inner_symbols: FxHashMap<Id<Variable>, SymbolId>,
    /// For the name of each module-scope variable, the size of its elements in bytes.
    pub(super) element_bytes: FxHashMap<Name, u32>,
    /// For the name of each function, the ID of the function in the IR.
    pub(super) functions: FxHashMap<Name, FuncId>,
    /// For each function, the syntax tree of its definition, or of its first declaration if the
    /// module does not define it.
    pub(super) heads: FxHashMap<FuncId, Id<ast::Function>>,
    /// For each alias, the function whose body the alias has.
    aliases: FxHashMap<FuncId, FuncId>,
    locs: FxHashMap<Id<ast::Location>, u32>,
    file_index: FxHashMap<u64, u32>,
    diagnostics: Vec<Diagnostic>,
    /// Whether the lowered bodies contain an op for each PTX instruction that tells observing tools
    /// (`margay::observe`) that the instruction executes.
    pub(super) observes: bool,
}

impl Deref for ModuleLowering<'_> {
    type Target = ModuleState;

    fn deref(&self) -> &ModuleState {
        &self.state
    }
}

impl DerefMut for ModuleLowering<'_> {
    fn deref_mut(&mut self) -> &mut ModuleState {
        &mut self.state
    }
}

impl ModuleState {
    /// Returns `Err` with all diagnostics if lowering has found an error, and `Ok` otherwise.
    pub(super) fn errors(&mut self) -> Result<(), Vec<Diagnostic>> {
        match self.diagnostics.iter().any(Diagnostic::is_error) {
            true => Err(std::mem::take(&mut self.diagnostics)),
            false => Ok(()),
        }
    }

    /// Returns the list of those instructions of `function` that have been lowered. Observing tools
    /// need this list.
    pub(super) fn instructions_of(&mut self, function: FuncId) -> &mut Vec<TextInstruction> {
        self.module.instructions.entry(function).or_default()
    }

    /// Returns the function whose body `function` has. For an alias, returns the target of the
    /// alias. For any other function, returns the function itself.
    pub(super) fn target_of(&self, function: FuncId) -> FuncId {
        self.aliases.get(&function).copied().unwrap_or(function)
    }
}

impl<'p> ModuleLowering<'p> {
    /// Continues the lowering of a module, of which `state` contains what has been lowered.
    pub(super) fn resume(
        parsed: &'p Parsed,
        resolution: &'p Resolution,
        state: ModuleState,
    ) -> Self {
        ModuleLowering {
            parsed,
            ast: &parsed.module,
            resolution,
            state,
        }
    }

    /// Begins the lowering of a module: lowers the header, the variables with their initial
    /// contents, and the function heads.
    ///
    /// # Errors
    ///
    /// Returns the errors in the header, the variables and the function heads of the module.
    pub(super) fn new(
        parsed: &'p Parsed,
        resolution: &'p Resolution,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut lowering = ModuleLowering::resume(parsed, resolution, ModuleState::default());
        lowering.header();
        lowering.declare();
        lowering.initialise();
        lowering.declare_inner();
        lowering.aliases();
        lowering.errors()?;
        Ok(lowering)
    }

    fn header(&mut self) {
        let ast = self.ast;
        let module = &mut self.state.module;
        if let Some((version, _)) = ast.version {
            module.version = (version.major, version.minor);
        }
        let Some(target) = &ast.target else { return };
        for word in &ast[target.words] {
            let text = ast.text(word.name);
            if let Some(found) = Target::parse(text) {
                let suffix = match found.variant {
                    Variant::Base => 0,
                    Variant::Family => b'f',
                    Variant::Specific => b'a',
                };
                module.target = ir::Target {
                    sm: u32::from(found.number),
                    suffix,
                    debug: module.target.debug,
                };
            } else if text == "debug" {
                module.target.debug = true;
            }
        }
    }

    /// Whether the PTX text contains a body of the function, whether this body has been lowered or
    /// not.
    pub(super) fn is_defined(&self, function: FuncId) -> bool {
        let head = self.heads.get(&self.target_of(function));
        head.is_some_and(|&head| self.ast[head].body.is_some())
    }

    pub(super) fn report(&mut self, problem: Diagnostic) {
        self.diagnostics.push(problem);
    }

    /// Creates the IR's symbols and functions for all variables and functions of the module, so
    /// that bodies and initialisers can refer to variables and functions that are declared later in
    /// the text.
    fn declare(&mut self) {
        for item in &self.ast.items {
            let result = match *item {
                Item::Variable(id) => self.declare_variable(&self.ast[id]),
                Item::Function(id) => self.declare_function(id),
                Item::File(id) => {
                    let (ast, state) = (self.ast, &mut self.state);
                    let file = &ast[id];
                    let number = state.module.files.len() as u32;
                    state.file_index.insert(file.index, number);
                    state.module.files.push(ast.text(file.name.name).to_owned());
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(problem) = result {
                self.report(problem);
            }
        }
    }

    fn declare_variable(&mut self, variable: &Variable) -> Lowered<()> {
        let symbol = self.symbol_of(variable, None)?;
        let element = data::element_bytes(variable) as u32;
        self.element_bytes.insert(variable.name.name, element);
        if let Some(&known) = self.symbols.get(&variable.name.name) {
            // A definition replaces an earlier `.extern` declaration.
            if symbol.linkage != Linkage::Extern {
                self.module.symbols[known] = symbol;
            }
            return Ok(());
        }
        let id = self.module.add_symbol(symbol);
        self.symbols.insert(variable.name.name, id);
        Ok(())
    }

    /// Creates the symbol of a variable, without the variable's initial contents. `owner` is the
    /// function whose body declares the variable, or `None` at module scope.
    fn symbol_of(&self, variable: &Variable, owner: Option<FuncId>) -> Lowered<Symbol> {
        let space = match variable.space {
            StateSpace::Const => Space::Const,
            StateSpace::Shared => Space::Shared,
            StateSpace::Global | StateSpace::Tex => Space::Global,
            StateSpace::Reg | StateSpace::Local | StateSpace::Param => {
                let message = format!("a module-scope variable in {} space", variable.space);
                return Err(Diagnostic::error(Code::STATE_SPACE, variable.span, message));
            }
        };
        let managed = self.ast[variable.attributes].contains(&Attribute::Managed);
        Ok(Symbol {
            name: self.ast.text(variable.name.name).to_owned(),
            space,
            size: data::size(self.ast, variable)?,
            align: data::align(variable),
            init: Vec::new(),
            relocs: Vec::new(),
            linkage: linkage(variable.linkage),
            managed,
            owner,
            reference: self.reference_of(variable),
        })
    }

    /// Returns the description of the texture, sampler or surface reference that a variable of
    /// opaque type contains. Returns `None` for variables of other types.
    fn reference_of(&self, variable: &Variable) -> Option<Reference> {
        let mut reference = Reference::new(match variable.scalar {
            ScalarType::TexRef => ReferenceKind::Texture,
            ScalarType::SamplerRef => ReferenceKind::Sampler,
            ScalarType::SurfRef => ReferenceKind::Surface,
            // `.tex .u32 name` is the old form of `.global .texref name`.
            _ if variable.space == StateSpace::Tex => ReferenceKind::Texture,
            _ => return None,
        });
        let properties = variable.initializer.map(|id| self.ast[id].kind);
        if let Some(InitializerKind::Properties(list)) = properties {
            for property in &self.ast[list] {
                let key = self.ast.text(property.key.name);
                match property.value {
                    PropertyValue::Word(word) => {
                        reference.set_word(key, self.ast.text(word.name));
                    }
                    PropertyValue::Constant(constant) => {
                        let number = data::constant_bits(constant, OpType::U64);
                        reference.set_number(key, number as u64);
                    }
                }
            }
        }
        Some(reference)
    }

    /// Creates the symbols of the variables in function bodies that exist as long as the module.
    fn declare_inner(&mut self) {
        let ast = self.ast;
        for (id, head) in ast.functions() {
            let function = self.functions.get(&head.name.name).copied();
            let Some((function, body)) = function.zip(head.body) else {
                continue;
            };
            if self.heads.get(&function) != Some(&id) {
                continue;
            }
            for statement in &ast[body] {
                if let Statement::Variable(id) = *statement
                    && !ast[id].space.is_of_thread()
                {
                    self.declare_inner_variable(id, function);
                }
            }
            // The variables of a body that the parser has skipped.
            for id in head.unread.iter().flat_map(|unread| unread.variables.ids()) {
                self.declare_inner_variable(id, function);
            }
        }
    }

    fn declare_inner_variable(&mut self, id: Id<Variable>, owner: FuncId) {
        let variable = &self.ast[id];
        match self.symbol_of(variable, Some(owner)) {
            Ok(symbol) => {
                let symbol = self.module.symbols.push(symbol);
                self.inner_symbols.insert(id, symbol);
                self.initialise_one(symbol, variable);
            }
            Err(problem) => self.report(problem),
        }
    }

    /// Evaluates the initial contents of the module-scope variables. The caller must call
    /// [`ModuleLowering::declare`] first.
    fn initialise(&mut self) {
        for (_, variable) in self.ast.variables() {
            if let Some(&id) = self.symbols.get(&variable.name.name)
                && variable.initializer.is_some()
            {
                self.initialise_one(id, variable);
            }
        }
    }

    fn initialise_one(&mut self, id: SymbolId, variable: &Variable) {
        let find = |name: Name, generic: bool| {
            let symbol = self
                .symbols
                .get(&name)
                .map(|&symbol| RelocTarget::Symbol { symbol, generic });
            symbol.or_else(|| {
                self.functions
                    .get(&name)
                    .map(|&func| RelocTarget::Func(func))
            })
        };
        match data::Contents::of(self.ast, variable, &find) {
            Ok(contents) => {
                let (bytes, relocs) = (contents.bytes, contents.relocs);
                let symbol = &mut self.module.symbols[id];
                symbol.init = bytes;
                symbol.relocs = relocs;
            }
            Err(problem) => self.report(problem),
        }
        debug_assert!(!matches!(
            variable.initializer.map(|init| self.ast[init].kind),
            Some(InitializerKind::Properties(_)) if !self.module.symbols[id].init.is_empty()
        ));
    }

    fn declare_function(&mut self, id: Id<ast::Function>) -> Lowered<()> {
        let head = &self.ast[id];
        if let Some(&known) = self.functions.get(&head.name.name) {
            if head.body.is_some() {
                let function = self.head_of(head)?;
                self.module.functions[known] = function;
                self.heads.insert(known, id);
            }
            return Ok(());
        }
        let function = self.head_of(head)?;
        let func = self.module.add_function(function);
        self.functions.insert(head.name.name, func);
        self.heads.insert(func, id);
        Ok(())
    }

    fn head_of(&self, head: &ast::Function) -> Lowered<Function> {
        let mut function = Function {
            name: self.ast.text(head.name.name).to_owned(),
            linkage: linkage(head.linkage),
            ..Function::default()
        };
        match head.kind {
            FunctionKind::Func => {
                function.signature =
                    self.signature(&self.ast[head.returns], &self.ast[head.parameters]);
            }
            FunctionKind::Entry => function.kernel = Some(self.kernel_data(head)?),
        }
        Ok(function)
    }

    /// Returns the IR signature of a function or prototype with these return parameters and
    /// parameters. [`Signature`] describes how arrays are passed.
    pub(super) fn signature(&self, returns: &[Variable], parameters: &[Variable]) -> Signature {
        let mut signature = Signature::default();
        for variable in returns {
            if is_array(variable) {
                signature.params.push(Type::B64);
            } else {
                signature.returns.extend(registers(variable));
            }
        }
        for variable in parameters {
            if is_array(variable) {
                signature.params.push(Type::B64);
            } else {
                signature.params.extend(registers(variable));
            }
        }
        signature
    }

    fn kernel_data(&self, head: &ast::Function) -> Lowered<KernelData> {
        let mut kernel = KernelData::default();
        let mut end = 0u64;
        for variable in &self.ast[head.parameters] {
            let (size, align) = (data::size(self.ast, variable)?, data::align(variable));
            let offset = end.next_multiple_of(u64::from(align));
            end = offset + size;
            if end > u64::from(u16::MAX) * 16 {
                let message = "the kernel's parameters are too large";
                return Err(Diagnostic::error(Code::OBJECT_SIZE, variable.span, message));
            }
            kernel.params.push(KernelParam {
                name: self.ast.text(variable.name.name).to_owned(),
                offset: offset as u32,
                size: size as u32,
                align,
            });
        }
        kernel.param_bytes = end as u32;
        for directive in &self.ast[head.directives] {
            let cut = |values: [u64; 3]| values.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let one = |n: u64| Some(u32::try_from(n).unwrap_or(u32::MAX));
            match directive.kind {
                DirectiveKind::MaxThreads(shape) => kernel.maxntid = Some(cut(shape)),
                DirectiveKind::RequiredThreads(shape) => kernel.reqntid = Some(cut(shape)),
                DirectiveKind::MinCtasPerSm(n) => kernel.minnctapersm = one(n),
                DirectiveKind::MaxRegisters(n) => kernel.maxnreg = one(n),
                DirectiveKind::RequiredCtasPerCluster(shape) => kernel.cluster = Some(cut(shape)),
                DirectiveKind::MaxClusterRank(n) => kernel.maxclusterrank = one(n),
                DirectiveKind::BlocksAreClusters => kernel.blocksareclusters = true,
                _ => {}
            }
        }
        Ok(kernel)
    }

    /// Lowers the body of a function, if the function has a body that is not lowered yet.
    ///
    /// # Errors
    ///
    /// Returns the errors that lowering finds in the body.
    pub(super) fn define(&mut self, function: FuncId) -> Result<(), Vec<Diagnostic>> {
        let target = self.target_of(function);
        let ast = self.ast;
        if let Some(&head) = self.heads.get(&target)
            && ast[head].body.is_some()
            && !self.module.functions[target].has_body()
        {
            let shell = self.module.functions[target].clone();
            match FunctionLowering::new(self, (target, shell), &ast[head]).run() {
                Ok(lowered) => self.module.functions[target] = lowered,
                Err(problem) => self.report(problem),
            }
            self.errors()?;
        }
        if target != function && !self.module.functions[function].has_body() {
            let name = std::mem::take(&mut self.module.functions[function].name);
            self.module.functions[function] = Function {
                name,
                ..self.module.functions[target].clone()
            };
        }
        Ok(())
    }

    fn aliases(&mut self) {
        for item in &self.ast.items {
            if let Item::Alias(id) = *item {
                let alias = self.ast[id];
                let target = self.functions.get(&alias.target.name).copied();
                let named = self.functions.get(&alias.name.name).copied();
                if let (Some(target), Some(named)) = (target, named) {
                    self.state.aliases.insert(named, target);
                }
            }
        }
    }

    /// Returns the index of a `.loc` directive in the IR module's table of source positions, plus
    /// one. Adds the directive to the table if the table does not contain it.
    pub(super) fn loc(&mut self, id: Id<ast::Location>) -> u32 {
        if let Some(&known) = self.locs.get(&id) {
            return known;
        }
        // Collect the locations that are not in the table, from the innermost inlined call to the outermost. A caller
        // has a smaller ID, so the loop ends.
        let mut chain = vec![id];
        let mut number = 0;
        while let Some(caller) = chain.last().and_then(|&id| self.ast[id].caller) {
            if let Some(&known) = self.locs.get(&caller) {
                number = known;
                break;
            }
            chain.push(caller);
        }
        for id in chain.into_iter().rev() {
            let location = self.ast[id];
            let inlined_at = match location.inlined_at {
                None => None,
                Some(_) if location.caller.is_some() => Some(number - 1),
                Some(at) => Some(self.push_loc(at, None)),
            };
            number = self.push_loc(location.position, inlined_at) + 1;
            self.locs.insert(id, number);
        }
        number
    }

    fn push_loc(&mut self, at: ast::SourcePosition, inlined_at: Option<u32>) -> u32 {
        let file = self
            .file_index
            .get(&u64::from(at.file))
            .copied()
            .unwrap_or(u32::MAX);
        self.module.locs.push(Loc {
            file,
            line: at.line,
            column: at.column,
            inlined_at,
        });
        self.module.locs.len() as u32 - 1
    }
}

/// Whether a parameter is passed by its address in memory, because it is an array or a vector in the state space
/// `.param`.
pub(super) fn is_array(variable: &Variable) -> bool {
    variable.space == StateSpace::Param
        && (!variable.dimensions.is_empty() || variable.vector.count() > 1)
}

/// Returns the types of the values with which a call passes a parameter. The parameter must not be
/// an array. A scalar is passed as one value, and a vector register as one value for each element.
pub(super) fn registers(variable: &Variable) -> impl Iterator<Item = Type> {
    let ty = op_type(variable.scalar).held();
    std::iter::repeat_n(ty, variable.vector.count() as usize)
}

fn linkage(linkage: ast::Linkage) -> Linkage {
    match linkage {
        ast::Linkage::Internal => Linkage::Internal,
        ast::Linkage::Extern => Linkage::Extern,
        ast::Linkage::Visible => Linkage::Visible,
        ast::Linkage::Weak => Linkage::Weak,
        ast::Linkage::Common => Linkage::Common,
    }
}
