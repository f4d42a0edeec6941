//! The mapping that holds all entries and the index. One of the few places with `unsafe`.
//!
//! Every byte is readable and writable for as long as the [`Map`] lives, and is zero at first. The
//! callers decide the meaning of the bytes and who may access them when: plain reads and writes of
//! a range need the right to it (see `log.rs` for writers, `pin.rs` for readers); atomic words may
//! be used at any time.

#[cfg(not(miri))]
use std::collections::VecDeque;
use std::io;
#[cfg(not(miri))]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
#[cfg(not(miri))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(not(miri))]
use parking_lot::Mutex;

/// A cache line of index slots.
pub(crate) type Bucket = [AtomicU64; 8];

/// Size of a huge page.
#[cfg(not(miri))]
const HUGE: usize = 2 << 20;
/// Huge pages that the system refuses before it is asked no more.
#[cfg(not(miri))]
const REFUSALS: usize = 16;
/// Wanted huge pages that are looked at for one that may be made: more than there are open
/// segments.
#[cfg(not(miri))]
const CHOICE: usize = 512;

/// Anonymous memory, mapped once.
#[derive(Debug)]
pub(crate) struct Map {
    base: NonNull<u8>,
    /// Bytes of segments.
    len: usize,
    /// Bytes behind them.
    more: usize,
    #[cfg(not(miri))]
    shared: Option<Shared>,
}

/// Memory that has a descriptor, by which another process can map it.
#[cfg(not(miri))]
#[derive(Debug)]
struct Shared {
    memory: OwnedFd,
    /// The address range in which the mapping lies, so that it begins at a huge page.
    range: (NonNull<u8>, usize),
    /// For each huge page whether it is wanted, or the system was asked for it.
    asked: Box<[AtomicBool]>,
    /// Those that it is still to be asked for.
    wanted: Mutex<VecDeque<usize>>,
    refused: AtomicUsize,
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
        Ok(Map { base, len, more: 0, shared: None })
    }

    /// New memory with a descriptor, `more` bytes behind the segments.
    #[cfg(not(miri))]
    pub(crate) fn open_shared(len: usize, more: usize) -> io::Result<Map> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
        let memory = memfd_create("larder", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, (len + more) as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
        Map::attach(memory, len, more)
    }

    /// The memory of another process.
    #[cfg(not(miri))]
    pub(crate) fn attach(memory: OwnedFd, len: usize, more: usize) -> io::Result<Map> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
        if rustix::fs::fstat(&memory)?.st_size as usize != len + more {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let all = len + more + HUGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address the kernel picks aliases nothing.
        let range =
            unsafe { mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), flags) }?;
        let base = range.map_addr(|at| at.next_multiple_of(HUGE));
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: within the range just mapped, which nobody uses yet.
        let mapped = unsafe { mmap(base, len + more, access, flags, &memory, 0) };
        let range = (NonNull::new(range.cast()).ok_or(io::ErrorKind::OutOfMemory)?, all);
        let asked = (0..len.div_ceil(HUGE)).map(|_| AtomicBool::new(false)).collect();
        let (wanted, refused) = Default::default();
        let shared = Shared { memory, range, asked, wanted, refused };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on the range is given back by `drop`.
        let map = Map { base, len, more, shared: Some(shared) };
        mapped?;
        // SAFETY: the mapping just made; the advice changes speed only.
        let _ = unsafe { madvise(map.base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(map)
    }

    /// The descriptor by which another process can map it.
    #[cfg(not(miri))]
    pub(crate) fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.shared.as_ref().map(|shared| shared.memory.as_fd())
    }

    /// Start of the bytes behind the segments, aligned as these are.
    pub(crate) fn behind(&self) -> NonNull<u8> {
        // SAFETY: `len` bytes from the base are still in the mapping, or its end.
        unsafe { self.base.add(self.len) }
    }

    /// Notes that a range wants huge pages. Without them the same memory costs more misses of the
    /// address cache; for private memory the system makes them by itself.
    #[cfg(not(miri))]
    pub(crate) fn want_huge(&self, at: usize, len: usize) {
        let Some(shared) = &self.shared else { return };
        if shared.refused.load(Ordering::Relaxed) >= REFUSALS {
            return;
        }
        for page in at / HUGE..(at + len).div_ceil(HUGE).min(self.len / HUGE) {
            if !shared.asked[page].swap(true, Ordering::Relaxed) {
                shared.wanted.lock().push_back(page);
            }
        }
    }

    /// Asks the system for so many of the huge pages that are wanted, of those that `may` accepts
    /// (by the place of their first byte, and their length); the others stay wanted. It waits for
    /// all processors, for milliseconds where they are busy: not for a thread that serves.
    ///
    /// Meanwhile a thread that touches memory in that page may have to wait, and so may one that
    /// maps memory.
    #[cfg(not(miri))]
    pub(crate) fn make_huge(&self, most: usize, may: impl Fn(usize, usize) -> bool) {
        let Some(shared) = &self.shared else { return };
        for _ in 0..most {
            let mut wanted = shared.wanted.lock();
            // The oldest are written to their end first.
            let found = wanted.iter().take(CHOICE).position(|page| may(page * HUGE, HUGE));
            let Some(page) = found.and_then(|at| wanted.remove(at)) else { return };
            drop(wanted);
            // Its memory may have been given back meanwhile.
            if !shared.asked[page].load(Ordering::Relaxed) {
                continue;
            }
            // SAFETY: the range lies in the mapping; its bytes stay what they are.
            let done = unsafe {
                libc::madvise(self.range(page * HUGE, HUGE).cast(), HUGE, libc::MADV_COLLAPSE)
            };
            if done != 0 {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[cfg(miri)]
    pub(crate) fn want_huge(&self, _: usize, _: usize) {}

    #[cfg(miri)]
    pub(crate) fn make_huge(&self, _: usize, _: impl Fn(usize, usize) -> bool) {}

    #[cfg(miri)]
    pub(crate) fn open(len: usize) -> io::Result<Map> {
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(Map::layout(len)) };
        Ok(Map { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, len, more: 0 })
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
        // SAFETY: in range; the rest is the caller's promise. The pages read as zeroes afterwards.
        #[cfg(not(miri))]
        unsafe {
            use rustix::mm::Advice;
            let shared = self.shared.as_ref();
            let advice = shared.map_or(Advice::LinuxDontNeed, |_| Advice::LinuxRemove);
            let _ = rustix::mm::madvise(start.cast(), len, advice);
            let pages =
                shared.into_iter().flat_map(|s| &s.asked[at / HUGE..(at + len).div_ceil(HUGE)]);
            pages.for_each(|page| page.store(false, Ordering::Relaxed));
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
        // SAFETY: the mapping was made with this length, and nothing borrowed from it
        // outlives it.
        #[cfg(not(miri))]
        unsafe {
            // An error would mean a wrong range, which cannot happen; a destructor cannot report
            // it.
            let (base, len) = match &self.shared {
                Some(shared) => shared.range,
                None => (self.base, self.len + self.more),
            };
            let _ = rustix::mm::munmap(base.as_ptr().cast(), len);
        }
        // SAFETY: allocated in `open` with this layout.
        #[cfg(miri)]
        unsafe {
            std::alloc::dealloc(self.base.as_ptr(), Map::layout(self.len));
        }
    }
}
