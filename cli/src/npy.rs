//! Reads and writes arrays in NumPy's file format, versions 1.0 to 3.0, in C order and little-endian.
//!
//! A file contains the magic number, a version, the header's length, the header (a Python dictionary with `descr`,
//! `fortran_order` and `shape`), and the values. Invariant: an array has exactly the bytes of its shape and element
//! type.

use std::path::Path;

use margay_cli::input;

use crate::element::Element;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Alignment in bytes of the values in a file.
const ALIGN: usize = 64;

/// An array with its element type, shape and bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Array {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.element.size()
    }

    /// Returns an iterator over the values; each item consists of the bytes of a value.
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.element.size())
    }

    /// Reads an `.npy` file.
    pub(crate) fn read(path: &Path) -> Result<Array, String> {
        let bytes = input::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Array::decode(&bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Writes an `.npy` file, or the raw values if the name has another extension.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let npy = path.extension().is_some_and(|e| e == "npy");
        let result = if npy {
            std::fs::write(path, self.encode())
        } else {
            std::fs::write(path, &self.bytes)
        };
        result.map_err(|e| format!("{}: {e}", path.display()))
    }

    fn decode(bytes: &[u8]) -> Result<Array, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("is not a .npy file")?;
        let short = || "ends within its header".to_owned();
        let (&version, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        let (len, rest) = match version {
            [1, _] => {
                let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
                (usize::from(u16::from_le_bytes(*len)), rest)
            }
            [2 | 3, _] => {
                let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
                (u32::from_le_bytes(*len) as usize, rest)
            }
            [major, minor] => return Err(format!("has format version {major}.{minor}")),
        };
        let (header, values) = rest.split_at_checked(len).ok_or_else(short)?;
        let header = String::from_utf8_lossy(header);
        let descr = entry(&header, "descr").ok_or("has no `descr` in its header")?;
        let descr = descr.trim_matches(['\'', '"']);
        let element = Element::from_npy(descr)
            .ok_or_else(|| format!("has elements of type `{descr}`, which is not supported"))?;
        if entry(&header, "fortran_order").is_some_and(|order| order != "False") {
            return Err("is in Fortran order; save it in C order".to_owned());
        }
        let shape = entry(&header, "shape").ok_or("has no `shape` in its header")?;
        let shape = tuple(shape).ok_or_else(|| format!("has shape `{shape}`"))?;
        let size = size(element, &shape)?;
        let values = values
            .get(..size)
            .ok_or_else(|| format!("has {} bytes of values, not {size}", values.len()))?;
        Ok(Array {
            element,
            shape,
            bytes: values.to_vec(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let numbers: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let comma = if numbers.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            self.element.npy(),
            numbers.join(", ")
        );
        let fixed = MAGIC.len() + 2 + 4;
        let end = (fixed + header.len() + 1).next_multiple_of(ALIGN);
        header.push_str(&" ".repeat(end - fixed - header.len() - 1));
        header.push('\n');
        let mut file = MAGIC.to_vec();
        file.extend([2, 0]);
        file.extend((header.len() as u32).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(&self.bytes);
        file
    }
}

/// Returns the number of bytes of an array with this element type and shape, or an error if it
/// exceeds `isize::MAX`.
pub(crate) fn size(element: Element, shape: &[usize]) -> Result<usize, String> {
    shape
        .iter()
        .try_fold(element.size(), |size, &n| size.checked_mul(n))
        .filter(|&size| size <= isize::MAX as usize)
        .ok_or_else(|| "is too large".to_owned())
}

/// Returns the text of the value that the header (a Python dictionary) contains for `key`. The
/// value must not be a dictionary.
fn entry<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let (at, len) = quoted
        .iter()
        .find_map(|key| Some((header.find(key.as_str())?, key.len())))?;
    let value = header[at + len..].trim_start().strip_prefix(':')?;
    let value = value.trim_start();
    let end = match value.strip_prefix('(') {
        Some(_) => value.find(')')? + 1,
        None => value.find([',', '}'])?,
    };
    Some(value[..end].trim())
}

fn tuple(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let numbers = inner.split(',').map(str::trim).filter(|n| !n.is_empty());
    numbers.map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that `numpy.save` of NumPy 2 writes for `numpy.array([[1, 2, 3]], dtype=numpy.int16)`.
    fn saved_by_numpy() -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        let header = b"{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }";
        file.extend(header);
        file.extend(vec![b' '; 0x76 - header.len() - 1]);
        file.push(b'\n');
        file.extend([1, 0, 2, 0, 3, 0]);
        file
    }

    #[test]
    fn reads_what_numpy_writes() {
        let array = Array::decode(&saved_by_numpy()).unwrap();
        assert_eq!(array.element, Element::I16);
        assert_eq!(array.shape, [1, 3]);
        assert_eq!(array.bytes, [1, 0, 2, 0, 3, 0]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shape in [vec![], vec![3], vec![3, 1]] {
            let array = Array {
                element: Element::F32,
                bytes: vec![7; 4 * shape.iter().product::<usize>()],
                shape,
            };
            let file = array.encode();
            assert_eq!((file.len() - array.bytes.len()) % ALIGN, 0);
            assert_eq!(Array::decode(&file).unwrap(), array);
        }
    }

    #[test]
    fn broken_files_are_refused() {
        let good = saved_by_numpy();
        for end in 0..good.len() {
            assert!(Array::decode(&good[..end]).is_err(), "cut at {end}");
        }
        let text = String::from_utf8_lossy(b"{'descr': '<i2', 'shape': (1").into_owned();
        assert_eq!(entry(&text, "shape"), None);
    }
}
