//! The mapping that holds all entries and the index. One of the few places with `unsafe`.
//!
//! Every byte is readable and writable for as long as the [`Map`] lives, and is zero at first. The
//! callers decide the meaning of the bytes and who may access them when: plain reads and writes of
//! a range need the right to it (see `log.rs` for writers, `pin.rs` for readers); atomic words may
//! be used at any time.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A cache line of index slots.
pub(crate) type Bucket = [AtomicU64; 8];

/// Anonymous memory, mapped once.
#[derive(Debug)]
pub(crate) struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory owned by this value; the functions that hand out access to it
// state their rules.
unsafe impl Send for Map {}
// SAFETY: as above; shared access goes through atomics or through ranges with one owner.
unsafe impl Sync for Map {}

impl Map {
    #[cfg(not(miri))]
    pub(crate) fn open(len: usize) -> io::Result<Map> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address the kernel picks aliases nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        // SAFETY: the range is the mapping just made; the advice changes speed only, so a refusal
        // is no error.
        let _ = unsafe { madvise(base, len, Advice::LinuxHugepage) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { base, len })
    }

    #[cfg(miri)]
    pub(crate) fn open(len: usize) -> io::Result<Map> {
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(Map::layout(len)) };
        Ok(Map { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    #[cfg(miri)]
    fn layout(len: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(len, 4096).expect("a sane length")
    }

    /// Start of `len` bytes at `at`. Panics outside the mapping.
    #[inline]
    pub(crate) fn range(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "a range inside the mapping");
        // SAFETY: just checked to be inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The index bucket at `at`, a multiple of 64 inside a segment the index owns.
    #[inline]
    pub(crate) fn bucket(&self, at: usize) -> &Bucket {
        debug_assert!(at.is_multiple_of(64));
        // SAFETY: in range and aligned (the mapping is page aligned, and so are segments, whose
        // buckets are contiguous); while the index owns a segment, which is until the map is
        // dropped, its words are only used as atomics.
        unsafe { &*self.range(at, 64).cast() }
    }

    /// The word at `at`, a multiple of 4, that is only used as an atomic while it is shared.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4));
        // SAFETY: in range and aligned (a `Loc` counts in fours); records keep their mutable words
        // apart from their plain bytes (`item.rs`).
        unsafe { &*self.range(at, 4).cast() }
    }

    /// Prefetches the line at `at`. A hint to the processor: no access, and no effect outside
    /// x86-64.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: inside the mapping, and a prefetch affects the caches only.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.range(at, 1).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }

    /// Bytes to read.
    ///
    /// # Safety
    /// Until the end of `'a` nobody writes the range, except through atomics outside it.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(&self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: in range; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.range(at, len), len) }
    }

    /// Copies `from` to `at`.
    ///
    /// # Safety
    /// The caller has the exclusive right to the range: nobody else reads or writes it now.
    #[inline]
    pub(crate) unsafe fn write(&self, at: usize, from: &[u8]) {
        // SAFETY: in range; source and target do not overlap because nobody else may hold the
        // target.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.range(at, from.len()), from.len())
        }
    }

    /// Gives the pages of a range back to the system; what was in it is lost. Advice: a refusal
    /// changes nothing.
    ///
    /// # Safety
    /// As for [`Map::write`].
    pub(crate) unsafe fn forget(&self, at: usize, len: usize) {
        let start = self.range(at, len);
        // SAFETY: in range; the rest is the caller's promise. Pages of private memory read as
        // zeroes afterwards.
        #[cfg(not(miri))]
        unsafe {
            let _ = rustix::mm::madvise(start.cast(), len, rustix::mm::Advice::LinuxDontNeed);
        }
        #[cfg(miri)]
        let _ = start;
    }

    /// Zeroes a range.
    ///
    /// # Safety
    /// As for [`Map::write`].
    pub(crate) unsafe fn zero(&self, at: usize, len: usize) {
        // SAFETY: in range; the rest is the caller's promise.
        unsafe { std::ptr::write_bytes(self.range(at, len), 0, len) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this length, and nothing borrowed from it
        // outlives it.
        #[cfg(not(miri))]
        unsafe {
            // An error would mean a wrong range, which cannot happen; a destructor cannot report
            // it.
            let _ = rustix::mm::munmap(self.base.as_ptr().cast(), self.len);
        }
        // SAFETY: allocated in `open` with this layout.
        #[cfg(miri)]
        unsafe {
            std::alloc::dealloc(self.base.as_ptr(), Map::layout(self.len));
        }
    }
}
