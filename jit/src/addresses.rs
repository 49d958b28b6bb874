//! Host addresses inside generated code: the addresses of op descriptions and operations, which the code passes to
//! reference functions, of the entries of a kernel's sync point table and, in the code of the wide back end, of functions
//! of the host. Generated code reaches all other data through the context.
//!
//! Code generation leaves eight bytes empty for each address and records their offset ([`Site`]). [`fill`] writes the
//! addresses of this process there, so that cached code also works in other processes (`cache`).

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    self, ExternalName, GlobalValueData, InstBuilder, UserExternalName, types,
};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilder;
use margay_ops::meaning::Desc;
use margay_x64::apply::margay_x64_apply;
use margay_x64::code::{Operation, Symbol};

use crate::sync_points::SyncPointTable;

/// The host data or function whose address the code contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A description in the function's [`DescTable`].
    Desc(u32),
    /// An entry of the kernel's sync point table.
    SyncPoint(u32),
    /// An operation of the function ([`HostData::operations`]).
    Operation(u32),
    /// A helper of programs of the wide back end ([`HostData::helpers`]).
    Helper(u32),
    /// The function that applies an operation to the lanes of its operands.
    Apply,
}

impl From<Symbol> for Target {
    fn from(symbol: Symbol) -> Target {
        match symbol {
            Symbol::Apply => Target::Apply,
            Symbol::Operation(number) => Target::Operation(number),
            Symbol::Helper(number) => Target::Helper(number),
        }
    }
}

impl Target {
    /// Encodes this target as a kind and an index, for relocations and cache files.
    pub(crate) fn parts(self) -> (u32, u32) {
        match self {
            Target::Desc(index) => (0, index),
            Target::SyncPoint(index) => (1, index),
            Target::Operation(index) => (2, index),
            Target::Helper(index) => (3, index),
            Target::Apply => (4, 0),
        }
    }

    /// Decodes a target from its kind and index. Returns `None` if the kind does not exist.
    pub(crate) fn of_parts(kind: u32, index: u32) -> Option<Target> {
        match kind {
            0 => Some(Target::Desc(index)),
            1 => Some(Target::SyncPoint(index)),
            2 => Some(Target::Operation(index)),
            3 => Some(Target::Helper(index)),
            4 => (index == 0).then_some(Target::Apply),
            _ => None,
        }
    }

    /// Emits an instruction that loads the address of this target as a constant. [`fill`] writes the actual address
    /// into the code later.
    pub(crate) fn emit(self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        let (kind, index) = self.parts();
        let name = UserExternalName::new(kind, index);
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

/// Eight bytes of code that contain an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    /// Offset from the start of the code.
    pub(crate) offset: u32,
    /// The target whose address these bytes contain.
    pub(crate) target: Target,
}

impl Site {
    /// Returns the site of a relocation, or `None` if the relocation is not the absolute address of a [`Target`] in
    /// eight bytes.
    pub(crate) fn of(function: &ir::Function, reloc: &FinalizedMachReloc) -> Option<Site> {
        let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = reloc.target else {
            return None;
        };
        if reloc.kind != Reloc::Abs8 || reloc.addend != 0 {
            return None;
        }
        let name = function.params.user_named_funcs().get(name)?;
        Some(Site {
            offset: reloc.offset,
            target: Target::of_parts(name.namespace, name.index)?,
        })
    }
}

/// What the sites of a function can lead to.
#[derive(Clone, Copy)]
pub(crate) struct HostData<'a> {
    pub(crate) descs: &'a DescTable,
    pub(crate) sync_points: &'a SyncPointTable,
    pub(crate) operations: &'a [Operation],
    /// The addresses of the helpers of programs of the wide back end.
    pub(crate) helpers: &'a [u64],
}

impl HostData<'_> {
    /// Returns the address of a target; `None` if the target does not exist.
    fn address(&self, target: Target) -> Option<u64> {
        match target {
            Target::Desc(index) => self.descs.address(index),
            Target::SyncPoint(index) => self.sync_points.address(index),
            Target::Operation(index) => {
                let operation = self.operations.get(index as usize)?;
                Some(std::ptr::from_ref(operation) as u64)
            }
            Target::Helper(index) => self.helpers.get(index as usize).copied(),
            Target::Apply => Some(margay_x64_apply as *const () as u64),
        }
    }
}

/// Writes the addresses that the targets have in this process into the code. Returns `None` if a site is outside the
/// code or if the target of a site does not exist. In this case, the function may already have written some of the
/// addresses.
pub(crate) fn fill(code: &mut [u8], sites: &[Site], host: HostData<'_>) -> Option<()> {
    for site in sites {
        let address = host.address(site.target)?;
        bytes_of(code, site)?.copy_from_slice(&address.to_ne_bytes());
    }
    Some(())
}

/// Replaces all addresses with zeros, so that the code is equal in all processes. Returns `None` if a site is outside
/// the code.
pub(crate) fn clear(code: &mut [u8], sites: &[Site]) -> Option<()> {
    for site in sites {
        bytes_of(code, site)?.fill(0);
    }
    Some(())
}

fn bytes_of<'a>(code: &'a mut [u8], site: &Site) -> Option<&'a mut [u8]> {
    let start = site.offset as usize;
    code.get_mut(start..start.checked_add(8)?)
}

/// The op descriptions whose addresses generated code contains.
#[derive(Debug, Default)]
pub struct DescTable(
    #[expect(
        clippy::vec_box,
        reason = "code holds the addresses, so they must not move"
    )]
    Vec<Box<Desc>>,
);

impl DescTable {
    /// Returns the index of a description, and adds the description if it is new.
    pub(crate) fn number_of(&mut self, desc: Desc) -> u32 {
        let index = match self.0.iter().position(|known| **known == desc) {
            Some(index) => index,
            None => {
                self.0.push(Box::new(desc));
                self.0.len() - 1
            }
        };
        index as u32
    }

    /// Returns the address of a description. The address does not change while the table exists.
    fn address(&self, index: u32) -> Option<u64> {
        let desc: &Desc = self.0.get(index as usize)?;
        Some(std::ptr::from_ref(desc) as u64)
    }

    /// Iterates over the descriptions by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Desc> {
        self.0.iter().map(Box::as_ref)
    }
}

impl FromIterator<Desc> for DescTable {
    fn from_iter<I: IntoIterator<Item = Desc>>(descs: I) -> DescTable {
        DescTable(descs.into_iter().map(Box::new).collect())
    }
}
