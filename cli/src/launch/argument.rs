//! Parses the notation of a kernel's arguments on the command line.
//!
//! Invariant: a parsed argument contains all its bytes. This module reads the files that arguments name, and writes no
//! files.

use std::path::{Path, PathBuf};

use margay_cli::input;

use crate::element::Element;
use crate::npy::{Array, size};

/// A kernel's argument.
pub(super) enum Argument {
    /// Bytes passed by value.
    Scalar(Vec<u8>),
    /// Device memory with these initial values.
    Buffer {
        array: Array,
        save_to: Option<PathBuf>,
    },
}

/// The value of an option that refers to one argument of the kernel: `2=FILE`.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) index: usize,
    pub(super) text: String,
}

/// Parses `INDEX=TEXT`.
pub(super) fn target(text: &str) -> Result<Target, String> {
    let (index, text) = text.split_once('=').ok_or("must be INDEX=...")?;
    let index = index
        .parse()
        .map_err(|_| format!("`{index}` is not an index"))?;
    if text.is_empty() {
        return Err("nothing after `=`".to_owned());
    }
    Ok(Target {
        index,
        text: text.to_owned(),
    })
}

/// Parses the values with which the buffer `like` is compared: `[1,2,3]`, a `.npy` file, or a file of raw values.
pub(super) fn buffer_of(text: &str, like: &Array) -> Result<Array, String> {
    let (element, shape) = (like.element, like.shape.clone());
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let values = list.split(',').map(str::trim).filter(|v| !v.is_empty());
        let bytes: Vec<Vec<u8>> = values.map(|v| element.parse(v)).collect::<Result<_, _>>()?;
        return Ok(Array {
            element,
            shape,
            bytes: bytes.concat(),
        });
    }
    if text.ends_with(".npy") {
        return Array::read(Path::new(text));
    }
    let bytes = input::read(Path::new(text)).map_err(|e| format!("{text}: {e}"))?;
    Ok(Array {
        element,
        shape,
        bytes,
    })
}

fn element(name: &str) -> Result<Element, String> {
    Element::named(name).ok_or_else(|| format!("`{name}` is not an element type"))
}

/// Splits `f32:32x32:REST` into element type, shape and the optional rest.
fn typed(rest: &str) -> Result<(Element, Vec<usize>, Option<&str>), String> {
    let (name, rest) = rest.split_once(':').ok_or("needs a type and a size")?;
    let (shape, rest) = match rest.split_once(':') {
        Some((shape, rest)) => (shape, Some(rest)),
        None => (rest, None),
    };
    let numbers = shape.split('x').map(|n| n.parse::<usize>());
    let shape = numbers
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| format!("`{shape}` is not a size"))?;
    Ok((element(name)?, shape, rest))
}

fn made(
    element: Element,
    shape: Vec<usize>,
    value: impl Fn(u64) -> Vec<u8>,
) -> Result<Array, String> {
    let len = size(element, &shape)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| format!("{len} bytes do not fit into memory"))?;
    for index in 0..len / element.size() {
        bytes.extend(value(index as u64));
    }
    Ok(Array {
        element,
        shape,
        bytes,
    })
}

fn buffer(array: Array) -> Argument {
    Argument::Buffer {
        array,
        save_to: None,
    }
}

fn no_more(rest: Option<&str>) -> Result<(), String> {
    match rest {
        None => Ok(()),
        Some(rest) => Err(format!("`{rest}` is unexpected")),
    }
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{text}` is not an even number of hexadecimal digits");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(wrong());
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

/// Parses one argument and reads its file.
pub(super) fn parse(text: &str) -> Result<Argument, String> {
    let (kind, rest) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` must begin with a type or kind, as in u32:5"))?;
    match kind {
        "in" => Array::read(Path::new(rest)).map(buffer),
        "inout" => Ok(Argument::Buffer {
            array: Array::read(Path::new(rest))?,
            save_to: Some(rest.into()),
        }),
        "raw" => raw(rest).map(buffer),
        "bytes" => hexadecimal(rest).map(Argument::Scalar),
        "zeros" | "fill" | "iota" | "out" => filled(kind, rest),
        name => {
            let element = Element::named(name)
                .ok_or_else(|| format!("`{name}` is neither a type nor a kind of buffer"))?;
            element.parse(rest).map(Argument::Scalar)
        }
    }
}

fn raw(rest: &str) -> Result<Array, String> {
    let (name, path) = rest.split_once(':').ok_or("needs a type and a file")?;
    let element = element(name)?;
    let bytes = input::read(Path::new(path)).map_err(|e| format!("{path}: {e}"))?;
    if !bytes.len().is_multiple_of(element.size()) {
        return Err(format!(
            "{path}: {} bytes are not a whole number of {name} values",
            bytes.len()
        ));
    }
    Ok(Array {
        element,
        shape: vec![bytes.len() / element.size()],
        bytes,
    })
}

fn filled(kind: &str, rest: &str) -> Result<Argument, String> {
    let (element, shape, rest) = typed(rest)?;
    let zero = |_| element.counted(0);
    match kind {
        "fill" => {
            let value = element.parse(rest.ok_or("needs a value")?)?;
            made(element, shape, |_| value.clone()).map(buffer)
        }
        "iota" => {
            no_more(rest)?;
            made(element, shape, |index| element.counted(index)).map(buffer)
        }
        "out" => Ok(Argument::Buffer {
            array: made(element, shape, zero)?,
            save_to: Some(rest.ok_or("needs a file")?.into()),
        }),
        _ => {
            no_more(rest)?;
            made(element, shape, zero).map(buffer)
        }
    }
}
