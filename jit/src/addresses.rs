//! Addresses of the host that generated code holds: of the descriptions of operations that are computed by their
//! meanings, and of the points of a kernel. All others are reached through the context.
//!
//! Code generation leaves the eight bytes of each open and says where they are ([`Site`]); [`fill`] puts the
//! addresses of this process there, so the same code serves another process too (`cache`).

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    self, ExternalName, GlobalValueData, InstBuilder, UserExternalName, types,
};
use cranelift_codegen::{FinalizedMachReloc, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilder;
use margay_ops::meaning::Desc;

use crate::points::PointTable;

/// What an address in the code is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A description in the function's [`DescTable`].
    Desc(u32),
    /// A point of the kernel.
    Point(u32),
}

impl Target {
    /// Its kind and its number.
    pub(crate) fn parts(self) -> (u32, u32) {
        match self {
            Target::Desc(index) => (0, index),
            Target::Point(index) => (1, index),
        }
    }

    /// The target of a kind and a number.
    pub(crate) fn of_parts(kind: u32, index: u32) -> Option<Target> {
        match kind {
            0 => Some(Target::Desc(index)),
            1 => Some(Target::Point(index)),
            _ => None,
        }
    }

    /// Its address, to be filled in later, as a value of the function that is being made.
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

/// Eight bytes of code that hold an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    /// From the start of the code.
    pub(crate) offset: u32,
    /// Whose address.
    pub(crate) target: Target,
}

impl Site {
    /// The site of a relocation; `None` if it is for anything else.
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

/// Puts the addresses into the code. `None`, with some of them in place, if a site lies outside of the code or its
/// target does not exist.
pub(crate) fn fill(
    code: &mut [u8],
    sites: &[Site],
    descs: &DescTable,
    points: &PointTable,
) -> Option<()> {
    for site in sites {
        let address = match site.target {
            Target::Desc(index) => descs.address(index)?,
            Target::Point(index) => points.address(index)?,
        };
        bytes_of(code, site)?.copy_from_slice(&address.to_ne_bytes());
    }
    Some(())
}

/// Makes code the same in all processes again.
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

/// Descriptions that generated code refers to by address.
#[derive(Debug, Default)]
pub struct DescTable(
    #[expect(
        clippy::vec_box,
        reason = "code holds the addresses, so they must not move"
    )]
    Vec<Box<Desc>>,
);

impl DescTable {
    /// The number of a description, which is added where it is new.
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

    /// The address of a description, which stays the same as long as the table lives.
    fn address(&self, index: u32) -> Option<u64> {
        let desc: &Desc = self.0.get(index as usize)?;
        Some(std::ptr::from_ref(desc) as u64)
    }

    /// The descriptions, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Desc> {
        self.0.iter().map(Box::as_ref)
    }
}

impl FromIterator<Desc> for DescTable {
    fn from_iter<I: IntoIterator<Item = Desc>>(descs: I) -> DescTable {
        DescTable(descs.into_iter().map(Box::new).collect())
    }
}
