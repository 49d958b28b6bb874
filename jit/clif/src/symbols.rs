//! Addresses that generated code contains. Code generation leaves eight bytes empty for each of them ([`Site`]), so that
//! code can be stored and run in another process.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    self, ExternalName, GlobalValueData, InstBuilder, UserExternalName, types,
};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilder;

/// What has an address in generated code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// The helper with this number.
    Helper(u32),
    /// A function of the type [`crate::apply::Apply`].
    Apply,
    /// The [`crate::apply::LaneCall`] with this number in the [`crate::Report`].
    LaneCall(u32),
}

impl Symbol {
    /// Returns a number for the kind of the symbol, and its number among the symbols of this kind.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Symbol::Helper(number) => (0, number),
            Symbol::Apply => (1, 0),
            Symbol::LaneCall(number) => (2, number),
        }
    }

    /// Returns the symbol with these numbers, if there is one.
    pub fn of_parts(kind: u32, number: u32) -> Option<Symbol> {
        match (kind, number) {
            (0, number) => Some(Symbol::Helper(number)),
            (1, 0) => Some(Symbol::Apply),
            (2, number) => Some(Symbol::LaneCall(number)),
            _ => None,
        }
    }

    /// Emits an instruction that loads the address.
    pub(crate) fn address(self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        let (namespace, index) = self.parts();
        let name = UserExternalName::new(namespace, index);
        let name = ExternalName::user(b.func.declare_imported_user_function(name));
        let global = b.create_global_value(GlobalValueData::Symbol {
            name,
            offset: 0.into(),
            colocated: false,
            tls: false,
        });
        b.ins().symbol_value(types::I64, global)
    }
}

/// Eight bytes of code that contain the address of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The offset from the start of the code.
    pub offset: u32,
    /// The symbol.
    pub symbol: Symbol,
}

impl Site {
    /// Returns the site of a relocation of compiled code; `None` if it is not the absolute address of a symbol.
    pub fn of(function: &ir::Function, relocation: &FinalizedMachReloc) -> Option<Site> {
        let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = relocation.target else {
            return None;
        };
        if relocation.kind != Reloc::Abs8 || relocation.addend != 0 {
            return None;
        }
        let name = function.params.user_named_funcs().get(name)?;
        Some(Site {
            offset: relocation.offset,
            symbol: Symbol::of_parts(name.namespace, name.index)?,
        })
    }
}
