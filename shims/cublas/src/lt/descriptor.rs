//! Descriptors: structures of NVIDIA's sizes, which programs see as arrays of words.
//!
//! A program gets a descriptor from a function that allocates it, or passes memory of its own, and it may copy a
//! descriptor. So the values are inside the structure, behind a word that tells the kind of descriptor. The addresses of
//! allocated descriptors are in a table; memory at other addresses is tested before it is read or written.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::host::{self, Plain};
use crate::status::{Outcome, Status, need};

/// An attribute: its number, and the place of its value in the structure.
pub(crate) struct Attribute {
    pub(crate) number: i32,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// A kind of descriptor.
pub(crate) trait Descriptor: Plain {
    /// The first word of each descriptor of this kind.
    const MARK: u32;
    /// The number of words of NVIDIA's structure.
    const WORDS: usize;
    /// The attributes.
    const ATTRIBUTES: &'static [Attribute];
    /// Returns the first word.
    fn mark(&self) -> u32;
}

/// Defines a descriptor whose fields leave no gaps.
macro_rules! descriptor {
    (
        $(#[$about:meta])*
        $name:ident $mark:literal $words:literal;
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr;)*
        { $($number:literal $attribute:ident;)* }
    ) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            mark: u32,
            $($(#[$doc])* pub(crate) $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { mark: $mark, $($field: $default,)* }
            }
        }

        // SAFETY: all fields are numbers, and the fields leave no gaps.
        unsafe impl crate::host::Plain for $name {}

        const _: () = {
            let fields = size_of::<u32>() $(+ size_of::<$type>())*;
            assert!(fields == size_of::<$name>() && fields <= $words * 8);
        };

        impl crate::lt::descriptor::Descriptor for $name {
            const MARK: u32 = $mark;
            const WORDS: usize = $words;
            const ATTRIBUTES: &'static [crate::lt::descriptor::Attribute] = &[
                $(crate::lt::descriptor::Attribute {
                    number: $number,
                    offset: std::mem::offset_of!($name, $attribute),
                    size: {
                        const fn size_of_field<T>(_: fn(&$name) -> &T) -> usize {
                            size_of::<T>()
                        }
                        size_of_field(|all| &all.$attribute)
                    },
                },)*
            ];
            fn mark(&self) -> u32 {
                self.mark
            }
        }
    };
}
pub(crate) use descriptor;

/// The addresses of allocated descriptors with their kinds and numbers of words.
static ALLOCATED: LazyLock<RwLock<HashMap<usize, (u32, usize)>>> = LazyLock::new(RwLock::default);

/// Allocates a descriptor and stores its address.
pub(crate) fn create<D: Descriptor>(place: *mut usize, value: D) -> Outcome {
    need(!place.is_null(), 0)?;
    let words = vec![0_u64; D::WORDS].into_boxed_slice();
    let address = Box::into_raw(words).cast::<u64>();
    // SAFETY: the descriptor is not longer than its words.
    unsafe { address.cast::<D>().write(value) };
    ALLOCATED
        .write()
        .insert(address.addr(), (D::MARK, D::WORDS));
    if host::write(place, address.addr()).is_none() {
        destroy::<D>(address.addr())?;
        return Err(Status::INVALID_VALUE.into());
    }
    Ok(())
}

/// Writes a descriptor into memory of the program, which has `size` bytes.
pub(crate) fn init<D: Descriptor>(address: usize, size: usize, value: D) -> Outcome {
    if size < size_of::<D>() {
        return Err(Status::ALLOC_FAILED.into());
    }
    need(host::write(address as *mut D, value).is_some(), 0)
}

/// Frees a descriptor. Null is no error.
pub(crate) fn destroy<D: Descriptor>(address: usize) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    let mut allocated = ALLOCATED.write();
    match allocated.get(&address) {
        Some(&(mark, words)) if mark == D::MARK => {
            allocated.remove(&address);
            let words = std::ptr::slice_from_raw_parts_mut(address as *mut u64, words);
            // The word that tells the kind is overwritten, because programs may use the address again by mistake.
            // SAFETY: the words belong to the descriptor, and nobody else has its address.
            unsafe { (*words)[0] = 0 };
            // SAFETY: `create` made the box, and the table forgot it.
            drop(unsafe { Box::from_raw(words) });
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE.into()),
    }
}

/// Returns a descriptor.
///
/// # Errors
/// `INVALID_VALUE` if there is none of this kind at the address.
pub(crate) fn load<D: Descriptor>(address: usize) -> Result<D, Status> {
    let allocated = ALLOCATED.read();
    let found = match allocated.get(&address) {
        // SAFETY: the descriptor is allocated while the table is locked.
        Some((mark, _)) if *mark == D::MARK => Some(unsafe { (address as *const D).read() }),
        Some(_) => None,
        None => host::read(address as *const D),
    };
    let found = found.filter(|found| found.mark() == D::MARK);
    found.ok_or(Status::INVALID_VALUE)
}

/// Stores a changed descriptor.
fn store<D: Descriptor>(address: usize, value: D) -> Outcome {
    need(host::write(address as *mut D, value).is_some(), 0)
}

fn attribute<D: Descriptor>(number: i32) -> Result<&'static Attribute, Status> {
    let found = D::ATTRIBUTES
        .iter()
        .find(|attribute| attribute.number == number);
    found.ok_or(Status::INVALID_VALUE)
}

/// Changes an attribute. The value has exactly the attribute's size.
pub(crate) fn set<D: Descriptor>(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    let mut descriptor = load::<D>(address)?;
    let attribute = attribute::<D>(number)?;
    need(!value.is_null() && size == attribute.size, 0)?;
    let bytes = host::read_all(value.cast::<u8>(), size).ok_or(Status::INVALID_VALUE)?;
    let place = (&raw mut descriptor)
        .cast::<u8>()
        .wrapping_add(attribute.offset);
    // SAFETY: the attribute is inside the descriptor, of which all bytes are values.
    unsafe { place.copy_from(bytes.as_ptr(), size) };
    store(address, descriptor)
}

/// Stores the value of an attribute and its size. If the size of the buffer is 0, only the size is stored.
pub(crate) fn get<D: Descriptor>(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    let descriptor = load::<D>(address)?;
    let attribute = attribute::<D>(number)?;
    let place = (&raw const descriptor)
        .cast::<u8>()
        .wrapping_add(attribute.offset);
    // SAFETY: the attribute is inside the descriptor.
    let bytes = unsafe { std::slice::from_raw_parts(place, attribute.size) };
    give(bytes, value, size, written)
}

/// Stores a value and its size. If the size of the buffer is 0, only the size is stored.
pub(crate) fn give(bytes: &[u8], value: *mut c_void, size: usize, written: *mut usize) -> Outcome {
    if size == 0 {
        return need(host::write(written, bytes.len()).is_some(), 0);
    }
    need(!value.is_null() && size >= bytes.len(), 0)?;
    need(host::write_bytes(value.cast(), bytes).is_some(), 0)?;
    match written.is_null() {
        true => Ok(()),
        false => need(host::write(written, bytes.len()).is_some(), 0),
    }
}
