//! A cache of loaded images. The key of an image is derived from its contents. If a program loads
//! the same image several times, the parsed module and the native code are reused.
//!
//! Programs load the same image once for each context, and programs that compile at run time load the same text
//! repeatedly. The key is a digest of all inputs of a load. Invariant: images are immutable, except that code is
//! added to an image when the code is first needed and compiled. All contexts can share an image,
//! because the code of an image does not depend on the addresses of variables.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::image::PtxImage;
use crate::engine::{Image, LoadOptions};

/// Maximum number of images in the cache. An image can stay in the cache after its last module was
/// unloaded.
const MOST_IMAGES: usize = 64;
/// Maximum total size in bytes of the images in the cache.
const MOST_BYTES: usize = 32 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key([u8; 32]);

struct Entry {
    key: Key,
    bytes: usize,
    image: Arc<PtxImage>,
}

/// The most recently used images, in the order of their last use; the last entry is the most recent one.
#[derive(Default)]
pub(super) struct ImageCache {
    entries: Mutex<VecDeque<Entry>>,
}

impl ImageCache {
    /// Returns the cache key of an image, and the size of the image in bytes.
    pub(super) fn key(&self, image: &Image<'_>, options: &LoadOptions) -> (Key, usize) {
        let parts: &[&[u8]] = match image {
            Image::Ptx(text) => &[text.as_bytes()],
            Image::Bytes(bytes) => &[bytes],
            Image::Linked(images) => images,
        };
        let kind = std::mem::discriminant(image);
        let options = (options.capability, &options.name, options.unprobed);
        let key = margay_jit::digest_of(&(kind, parts, options));
        (Key(key), parts.iter().map(|part| part.len()).sum())
    }

    /// Returns the image with this key if the cache contains the image, and marks it as the most recently used image.
    pub(super) fn find(&self, key: Key) -> Option<Arc<PtxImage>> {
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|entry| entry.key == key)?;
        let entry = entries.remove(at)?;
        let image = Arc::clone(&entry.image);
        entries.push_back(entry);
        Some(image)
    }

    /// Adds an image. If the cache exceeds a limit, removes the images that have not been used for the longest time.
    pub(super) fn keep(&self, (key, bytes): (Key, usize), image: &Arc<PtxImage>) {
        let mut entries = self.entries.lock();
        entries.push_back(Entry {
            key,
            bytes,
            image: Arc::clone(image),
        });
        let mut total: usize = entries.iter().map(|entry| entry.bytes).sum();
        while entries.len() > MOST_IMAGES || total > MOST_BYTES {
            match entries.pop_front() {
                Some(oldest) => total -= oldest.bytes,
                None => break,
            }
        }
    }
}

impl std::fmt::Debug for ImageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImageCache({} images)", self.entries.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineChoice, Loader};
    use crate::native::PtxLoader;

    const TEXT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n";

    fn options(capability: u32) -> LoadOptions {
        LoadOptions {
            capability,
            ..LoadOptions::default()
        }
    }

    #[test]
    fn the_same_image_is_loaded_once() {
        let loader = PtxLoader::new(EngineChoice::default());
        let load = |text: &str, capability| {
            let image = loader.load(Image::Ptx(text), &options(capability)).unwrap();
            Arc::as_ptr(&image).cast::<()>()
        };
        let first = load(TEXT, 86);
        assert_eq!(load(TEXT, 86), first);
        assert_ne!(load(&TEXT.replace('k', "l"), 86), first);
        assert_ne!(load(TEXT, 90), first);
        assert_eq!(load(TEXT, 86), first);
    }

    #[test]
    fn what_is_kept_is_limited() {
        let loader = PtxLoader::new(EngineChoice::default());
        let first = Arc::downgrade(&loader.load(Image::Ptx(TEXT), &options(86)).unwrap());
        assert!(first.upgrade().is_some());
        for i in 0..MOST_IMAGES {
            let text = format!("{TEXT}// {i}\n");
            loader.load(Image::Ptx(&text), &options(86)).unwrap();
        }
        assert!(first.upgrade().is_none());
    }
}
