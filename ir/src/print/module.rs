//! Prints modules: variables, signatures and source positions, then the functions.

use std::fmt::{self, Write};

use super::words::{linkage_word, name, quoted};
use crate::module::{Module, Reloc, RelocTarget, Symbol};

fn write_symbol(f: &mut impl Write, symbol: &Symbol) -> fmt::Result {
    write!(
        f,
        "{} {}{} size {} align {}",
        symbol.space.name(),
        name(&symbol.name),
        linkage_word(symbol.linkage),
        symbol.size,
        symbol.align
    )?;
    if symbol.managed {
        write!(f, " managed")?;
    }
    if let Some(reference) = symbol.reference {
        write!(f, " reference {reference}")?;
    }
    if let Some(owner) = symbol.owner {
        write!(f, " owner {owner}")?;
    }
    if !symbol.init.is_empty() {
        write!(f, " init \"")?;
        for byte in &symbol.init {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "\"")?;
    }
    writeln!(f)?;
    symbol
        .relocs
        .iter()
        .try_for_each(|reloc| write_reloc(f, reloc))
}

fn write_reloc(f: &mut impl Write, reloc: &Reloc) -> fmt::Result {
    write!(f, "  address at {} of ", reloc.offset)?;
    match reloc.target {
        RelocTarget::Symbol { symbol, generic } => {
            write!(f, "{symbol}{}", if generic { " generic" } else { "" })?;
        }
        RelocTarget::Func(func) => write!(f, "{func}")?,
    }
    write!(f, " size {}", reloc.size)?;
    if reloc.shift != 0 {
        write!(f, " shift {}", reloc.shift)?;
    }
    if reloc.addend != 0 {
        write!(f, " addend {}", reloc.addend)?;
    }
    writeln!(f)
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        write!(
            f,
            "module version {major}.{minor} target sm_{}",
            self.target.sm
        )?;
        if self.target.suffix != 0 {
            write!(f, "{}", char::from(self.target.suffix))?;
        }
        writeln!(f, "{}", if self.target.debug { " debug" } else { "" })?;
        for file in &self.files {
            writeln!(f, "file {}", quoted(file))?;
        }
        for loc in &self.locs {
            write!(f, "loc {} {}:{}", loc.file, loc.line, loc.column)?;
            if let Some(at) = loc.inlined_at {
                write!(f, " inlined {at}")?;
            }
            writeln!(f)?;
        }
        for (id, signature) in self.signatures.iter() {
            let (params, returns) = (&signature.params, &signature.returns);
            let (params, returns) = (super::types(params), super::types(returns));
            writeln!(f, "{id} = signature {params} -> {returns}")?;
        }
        for (id, symbol) in self.symbols.iter() {
            write!(f, "{id} = ")?;
            write_symbol(f, symbol)?;
        }
        for (id, function) in self.functions.iter() {
            write!(f, "\n{id} = {function}")?;
        }
        Ok(())
    }
}
