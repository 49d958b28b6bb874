//! Records the bytes that the threads of kernels store to memory.
//!
//! A race of two stores is less serious if both store the same bytes. The caller of the race
//! detector records the bytes of every store here, in the order in which it passes the stores to
//! the detector. The caller can therefore compare a store with the previous store to the same
//! address, even if other threads have changed the memory after the previous store.

use rustc_hash::FxHashMap;

/// Number of bytes of a page.
const PAGE: u64 = 1 << 12;

/// For each address, the byte that the latest store wrote.
#[derive(Debug, Default)]
pub struct Values {
    pages: Vec<Box<[u8; PAGE as usize]>>,
    /// For each page that has been stored to, the index of the page in `pages`. The key is the
    /// page's address divided by [`PAGE`].
    indices: FxHashMap<u64, u32>,
    /// The page that was used last, and its index.
    last: Option<(u64, u32)>,
}

impl Values {
    /// Records that a thread stores bytes at an address.
    #[inline]
    pub fn store(&mut self, address: u64, bytes: &[u8]) {
        let offset = (address % PAGE) as usize;
        match self.last {
            Some((page, index))
                if page == address / PAGE && offset + bytes.len() <= PAGE as usize =>
            {
                let page = &mut self.pages[index as usize];
                page[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            _ => self.store_in_pages(address, bytes),
        }
    }

    fn store_in_pages(&mut self, mut address: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let offset = (address % PAGE) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE as usize - offset));
            let page = self.page(address / PAGE);
            page[offset..offset + now.len()].copy_from_slice(now);
            address = address.wrapping_add(now.len() as u64);
            bytes = rest;
        }
    }

    /// Returns whether `bytes` are the bytes that the latest stores wrote at an address. The caller
    /// must have recorded a store to every one of these bytes.
    pub fn equal(&self, mut address: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let offset = (address % PAGE) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE as usize - offset));
            let index = self.indices.get(&(address / PAGE));
            let page = index.and_then(|&index| self.pages.get(index as usize));
            if page.is_none_or(|page| page[offset..offset + now.len()] != *now) {
                return false;
            }
            address = address.wrapping_add(now.len() as u64);
            bytes = rest;
        }
        true
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        *self = Values::default();
    }

    fn page(&mut self, number: u64) -> &mut [u8; PAGE as usize] {
        let index = match self.last {
            Some((known, index)) if known == number => index,
            _ => {
                let next = self.pages.len() as u32;
                let index = *self.indices.entry(number).or_insert(next);
                if index == next {
                    self.pages.push(Box::new([0; PAGE as usize]));
                }
                self.last = Some((number, index));
                index
            }
        };
        &mut self.pages[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_may_cross_pages() {
        let mut values = Values::default();
        let bytes: Vec<u8> = (0..=255).cycle().take(3 * PAGE as usize).collect();
        values.store(PAGE - 3, &bytes);
        assert!(values.equal(PAGE - 3, &bytes));
        assert!(values.equal(2 * PAGE, &bytes[PAGE as usize + 3..][..9]));
        assert!(!values.equal(2 * PAGE, &bytes[..9]));
        values.store(2 * PAGE + 1, &[1, 2]);
        assert!(values.equal(2 * PAGE + 1, &[1, 2]));
        assert!(!values.equal(2 * PAGE, &bytes[PAGE as usize + 3..][..9]));
        assert!(!values.equal(99 * PAGE, &[0]), "nothing was stored there");
        values.clear();
        assert!(!values.equal(2 * PAGE + 1, &[1, 2]));
    }
}
