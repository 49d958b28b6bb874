//! Parses the text form of a module: the `module` line, then, in any order, source files, source positions, signatures,
//! variables and functions.

use super::cursor::Cursor;
use super::{Parsed, function};
use crate::entity::{FuncId, SymbolId};
use crate::function::{Linkage, Signature};
use crate::module::{Loc, Module, Reloc, RelocTarget, Symbol, Target};
use crate::print::words::linkage_of;
use margay_ops::mods::StateSpace;
use margay_ops::texture::Reference;

pub(super) fn module(c: &mut Cursor<'_>) -> Parsed<Module> {
    let mut module = Module::default();
    c.skip_lines();
    header(c, &mut module)?;
    while c.peek().is_some() {
        line(c, &mut module)?;
    }
    Ok(module)
}

fn header(c: &mut Cursor<'_>, module: &mut Module) -> Parsed<()> {
    c.keyword("module")?;
    c.keyword("version")?;
    module.version = c.word_as("a version such as 8.0", |word| {
        let (major, minor) = word.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })?;
    c.keyword("target")?;
    module.target = c.word_as("a target such as sm_80", |word| {
        let number = word.strip_prefix("sm_")?;
        let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = match &number.as_bytes()[digits.len()..] {
            [] => 0,
            [suffix] => *suffix,
            _ => return None,
        };
        Some(Target {
            sm: digits.parse().ok()?,
            suffix,
            debug: false,
        })
    })?;
    module.target.debug = c.accept_word("debug");
    c.line_end()
}

fn line(c: &mut Cursor<'_>, module: &mut Module) -> Parsed<()> {
    match c.peek_word() {
        "file" => {
            c.word();
            module.files.push(c.quoted()?);
            c.line_end()
        }
        "loc" => {
            c.word();
            let loc = loc(c)?;
            module.locs.push(loc);
            c.line_end()
        }
        "func" | "kernel" => {
            let function = function::function(c)?;
            module.add_function(function);
            c.line_end()
        }
        word => numbered(c, module, word),
    }
}

fn loc(c: &mut Cursor<'_>) -> Parsed<Loc> {
    let file = c.number("the number of a file")?;
    let line = c.number("a line")?;
    c.mark(":")?;
    let column = c.number("a column")?;
    let inlined = c.accept_word("inlined");
    let inlined_at = inlined.then(|| c.number("a source position")).transpose()?;
    Ok(Loc {
        file,
        line,
        column,
        inlined_at,
    })
}

/// Parses a line such as `sig0 = ...`, `sym0 = ...` or `fn0 = ...`. The number must be the next unused number of the
/// table that `word` names.
fn numbered(c: &mut Cursor<'_>, module: &mut Module, word: &str) -> Parsed<()> {
    let next = [
        ("sig", module.signatures.len()),
        ("sym", module.symbols.len()),
        ("fn", module.functions.len()),
    ];
    let Some((prefix, number)) = next
        .into_iter()
        .find(|(prefix, _)| word.starts_with(prefix))
    else {
        return Err(c.expected("`file`, `loc`, `sig0 =`, `sym0 =`, `fn0 =`, `func` or `kernel`"));
    };
    c.keyword(&format!("{prefix}{number}"))?;
    c.mark("=")?;
    match prefix {
        "sig" => {
            c.keyword("signature")?;
            let params = function::types(c)?;
            c.mark("->")?;
            let returns = function::types(c)?;
            module.signatures.push(Signature { params, returns });
            c.line_end()
        }
        "sym" => {
            let symbol = symbol(c)?;
            if symbol.owner.is_some() {
                module.symbols.push(symbol);
            } else {
                module.add_symbol(symbol);
            }
            Ok(())
        }
        _ => {
            let function = function::function(c)?;
            module.add_function(function);
            c.line_end()
        }
    }
}

fn symbol(c: &mut Cursor<'_>) -> Parsed<Symbol> {
    let space = c.word_as("a state space", StateSpace::from_name)?;
    let name = c.name()?;
    let linkage = linkage(c);
    let mut symbol = Symbol {
        name,
        space,
        size: c.number_of("size")?,
        align: c.number_of("align")?,
        init: Vec::new(),
        relocs: Vec::new(),
        linkage,
        managed: c.accept_word("managed"),
        owner: None,
        reference: None,
    };
    if c.accept_word("reference") {
        symbol.reference = Some(c.word_as("a reference", Reference::from_words)?);
    }
    if c.accept_word("owner") {
        symbol.owner = Some(FuncId(c.entity("fn", "a function such as `fn0`")?));
    }
    if c.accept_word("init") {
        let at = c.position();
        let text = c.quoted()?;
        symbol.init =
            hex_bytes(&text).ok_or_else(|| c.error_at(at, "bytes in hexadecimal are expected"))?;
    }
    c.line_end()?;
    while c.accept_word("address") {
        let reloc = reloc(c)?;
        symbol.relocs.push(reloc);
        c.line_end()?;
    }
    Ok(symbol)
}

fn reloc(c: &mut Cursor<'_>) -> Parsed<Reloc> {
    let offset = c.number_of("at")?;
    c.keyword("of")?;
    let target = if c.peek_word().starts_with("fn") {
        RelocTarget::Func(FuncId(c.entity("fn", "a function such as `fn0`")?))
    } else {
        RelocTarget::Symbol {
            symbol: SymbolId(c.entity("sym", "a symbol such as `sym0` or a function")?),
            generic: c.accept_word("generic"),
        }
    };
    let size = c.number_of("size")?;
    let shift = match c.accept_word("shift") {
        true => c.number("a number of bits")?,
        false => 0,
    };
    let addend = match c.accept_word("addend") {
        true => c.signed()?,
        false => 0,
    };
    Ok(Reloc {
        offset,
        size,
        shift,
        target,
        addend,
    })
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect()
}

/// Parses the linkage of a function or variable. If the next word names no linkage, the linkage is
/// internal.
pub(super) fn linkage(c: &mut Cursor<'_>) -> Linkage {
    match linkage_of(c.peek_word()) {
        Some(linkage) => {
            c.word();
            linkage
        }
        None => Linkage::Internal,
    }
}
