//! Large blocks of a program's heap. Such a block is mapped by itself, and grows by having its
//! pages mapped elsewhere: a buffer that doubles is not copied, however long it is. An allocator
//! that copies a block of 20 MB holds its thread for milliseconds.
//!
//! To give memory back to the system, and to touch new memory for the first time, takes as long: up
//! to 3 milliseconds for 2 MB on a virtual machine whose host has yet to find it. So blocks of some
//! megabytes that were freed lately are kept for the next ones of their size ([`Kept`]), and all
//! else is given back by a thread that serves nobody ([`give_back`]), in small pieces: other
//! threads that map memory wait for each.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr::null_mut,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};

/// Bytes of a block from which on it is mapped by itself.
const LARGE: usize = 1 << 20;
/// The system maps at these boundaries at least.
const PAGE: usize = 4096;
/// Longest block that is kept, in bytes: an element of 4 MiB with others of its run. Up to here a
/// block takes a power of two of addresses, so that few sizes are kept.
const KEPT_BLOCK: usize = 8 << 20;
/// Most bytes and blocks that are kept in the process: some for each worker.
const KEPT_BYTES: usize = 32 << 20;
const KEPT_BLOCKS: usize = 16;
/// Time after which blocks that nobody has taken are given back.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes given back in one call: some 0.2 ms.
const PIECE: usize = 2 << 20;
/// Most bytes that wait to be given back. Beyond, the thread that frees a block does it: memory
/// does not grow because that thread has no processor.
const WAITING: usize = 256 << 20;

/// An allocator that leaves all but large blocks to another.
#[derive(Debug)]
pub struct Large<A>(pub A);

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Bytes of the mapping of a block.
fn mapped(size: usize) -> usize {
    if size <= KEPT_BLOCK { size.next_power_of_two() } else { size }
}

// SAFETY: a large block is a mapping of its own from its first byte on, at least as long as its
// layout says, and private to its owner; the rest is the other allocator's. A block's layout says
// which of the two it is of, and callers pass the layout that the block has.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Large<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            let size = mapped(layout.size());
            let kept = KEPT.with(|blocks| blocks.take(size)).flatten();
            return kept.unwrap_or_else(|| map(size));
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // New pages are zero.
            return map(mapped(layout.size()));
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the mapping of this block, which nobody uses any more.
            unsafe { free(block, mapped(layout.size())) };
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is no overflow with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the caller's promise.
            (false, false) => unsafe { self.0.realloc(block, layout, size) },
            (true, true) if mapped(layout.size()) == mapped(size) => block,
            (true, true) => {
                let (old, size) = (mapped(layout.size()), mapped(size));
                // SAFETY: the mapping of this block; who owns the block knows no other address.
                let moved = unsafe { mremap(block.cast(), old, size, MremapFlags::MAYMOVE) };
                moved.map_or(null_mut(), <*mut _>::cast)
            }
            // SAFETY: both blocks are as long as the shorter one, they are not the same, and the
            // old one is given up only where there is a new one.
            _ => unsafe {
                let to = self.alloc(new);
                if !to.is_null() {
                    std::ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                to
            },
        }
    }
}

/// Mappings that nobody uses, of blocks that were freed: the last one freed is the first to be
/// used again.
struct Blocks {
    list: [(*mut u8, usize); KEPT_BLOCKS],
    count: usize,
    bytes: usize,
    /// Blocks that were used again.
    taken: usize,
}

// SAFETY: the mappings belong to nobody else, and a mapping is of all threads.
unsafe impl Send for Blocks {}

impl Blocks {
    const fn new() -> Blocks {
        Blocks { list: [(null_mut(), 0); KEPT_BLOCKS], count: 0, bytes: 0, taken: 0 }
    }

    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let at = self.list[..self.count].iter().rposition(|block| block.1 == size)?;
        self.taken += 1;
        Some(self.remove(at).0)
    }

    fn remove(&mut self, at: usize) -> (*mut u8, usize) {
        let block = self.list[at];
        self.list.copy_within(at + 1..self.count, at);
        (self.count, self.bytes) = (self.count - 1, self.bytes - block.1);
        block
    }

    /// Keeps a mapping; `gone` gets those for which there is no room any more.
    fn keep(&mut self, block: *mut u8, size: usize, mut gone: impl FnMut(*mut u8, usize)) {
        while self.count == KEPT_BLOCKS || self.bytes + size > KEPT_BYTES {
            let (oldest, size) = self.remove(0);
            gone(oldest, size);
        }
        self.list[self.count] = (block, size);
        (self.count, self.bytes) = (self.count + 1, self.bytes + size);
    }
}

/// The blocks of all threads. Nobody waits for another here: who finds somebody at work does
/// without.
struct Kept {
    is_busy: AtomicBool,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: `with` gives the blocks to one thread at a time.
unsafe impl Sync for Kept {}

impl Kept {
    fn with<T>(&self, f: impl FnOnce(&mut Blocks) -> T) -> Option<T> {
        if self.is_busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: nobody else is here before the store below, and `f` does not come back here: it
        // allocates nothing.
        let result = f(unsafe { &mut *self.blocks.get() });
        self.is_busy.store(false, Ordering::Release);
        Some(result)
    }
}

static KEPT: Kept =
    Kept { is_busy: AtomicBool::new(false), blocks: UnsafeCell::new(Blocks::new()) };

/// A mapping that waits to be given back. It lies in its first bytes.
struct Freed {
    next: *mut Freed,
    size: usize,
}

/// Mappings that wait to be given back, and their bytes.
static FREED: AtomicPtr<Freed> = AtomicPtr::new(null_mut());
static FREED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The thread that gives them back.
static GIVER: OnceLock<Thread> = OnceLock::new();

/// Keeps a mapping for others, or has it given back.
///
/// # Safety
/// It is a whole mapping of this size, from [`map`], and nobody uses it any more.
unsafe fn free(block: *mut u8, size: usize) {
    // SAFETY: the caller's promise, now and when the block was kept.
    let leave = |block, size| unsafe { leave(block, size) };
    if size > KEPT_BLOCK {
        return leave(block, size);
    }
    let was_empty = KEPT.with(|blocks| {
        let was_empty = blocks.count == 0;
        blocks.keep(block, size, leave);
        was_empty
    });
    match (was_empty, GIVER.get()) {
        (None, _) => leave(block, size),
        // It looks at the time from now on.
        (Some(true), Some(giver)) => giver.unpark(),
        _ => {}
    }
}

/// Leaves a mapping to the thread that gives them back; without one it is given back here.
///
/// # Safety
/// As for [`free`].
unsafe fn leave(block: *mut u8, size: usize) {
    let Some(giver) = GIVER.get() else {
        // SAFETY: the caller's promise.
        return unsafe { unmap(block, size) };
    };
    if FREED_BYTES.fetch_add(size, Ordering::Relaxed) > WAITING {
        FREED_BYTES.fetch_sub(size, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        return unsafe { unmap(block, size) };
    }
    let freed: *mut Freed = block.cast();
    let mut next = FREED.load(Ordering::Relaxed);
    loop {
        // SAFETY: a mapping has a page at least, can be written, and is aligned to a page.
        unsafe { freed.write(Freed { next, size }) };
        match FREED.compare_exchange_weak(next, freed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return giver.unpark(),
            Err(other) => next = other,
        }
    }
}

/// Gives memory back to the system that other threads have freed. It does not return: for a thread
/// of its own. Without one, who frees a block gives it back.
pub fn give_back() {
    if GIVER.set(thread::current()).is_err() {
        return;
    }
    let mut taken = None;
    loop {
        give_back_freed();
        let kept = KEPT.with(|blocks| (blocks.count > 0).then_some(blocks.taken)).flatten();
        if kept.is_some() && kept == taken {
            drop_kept();
            taken = None;
            continue;
        }
        taken = kept;
        match kept {
            // A thread that keeps the first one, or leaves one, calls.
            None => thread::park(),
            Some(_) => thread::park_timeout(IDLE),
        }
    }
}

fn give_back_freed() {
    let mut freed = FREED.swap(null_mut(), Ordering::Acquire);
    while !freed.is_null() {
        // SAFETY: it was written by `leave`, and is this thread's alone since the swap.
        let Freed { next, size } = unsafe { freed.read() };
        // SAFETY: the promise of who left it.
        unsafe { unmap(freed.cast(), size) };
        FREED_BYTES.fetch_sub(size, Ordering::Relaxed);
        freed = next;
    }
}

/// Gives back what is kept.
fn drop_kept() {
    while let Some((block, size)) =
        KEPT.with(|blocks| (blocks.count > 0).then(|| blocks.remove(0))).flatten()
    {
        // SAFETY: nobody uses it, and it is in the list no more.
        unsafe { unmap(block, size) };
    }
}

/// Gives a mapping back, in pieces: the system lets other threads map memory between two of them.
///
/// # Safety
/// As for [`free`].
unsafe fn unmap(block: *mut u8, size: usize) {
    for at in (0..size).step_by(PIECE).filter(|_| size > PIECE) {
        // SAFETY: the range lies in the mapping, which nobody uses. Advice: a refusal changes
        // nothing.
        let _ =
            unsafe { madvise(block.add(at).cast(), PIECE.min(size - at), Advice::LinuxDontNeed) };
    }
    // SAFETY: the same. It cannot fail for a range that is mapped.
    let _ = unsafe { munmap(block.cast(), size) };
}

/// A new mapping; null: there is no memory.
fn map(size: usize) -> *mut u8 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address the kernel picks aliases nothing.
    let block =
        unsafe { mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags) };
    block.map_or(null_mut(), <*mut _>::cast)
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    fn a_block_is_kept_for_the_next_of_its_size_and_the_oldest_goes() {
        let (mut blocks, mut gone) = (Blocks::new(), Vec::new());
        let address = |number: usize| number as *mut u8;
        for number in 1..=KEPT_BLOCKS + 2 {
            let size = if number == 3 { 2 * LARGE } else { LARGE };
            blocks.keep(address(number), size, |block, size| gone.push((block, size)));
        }
        assert_eq!(gone, [(address(1), LARGE), (address(2), LARGE)]);
        assert_eq!(blocks.take(2 * LARGE), Some(address(3)));
        assert_eq!(blocks.take(2 * LARGE), None);
        assert_eq!(blocks.take(LARGE), Some(address(KEPT_BLOCKS + 2)), "the last one");
        assert_eq!((blocks.count, blocks.bytes), (KEPT_BLOCKS - 2, (KEPT_BLOCKS - 2) * LARGE));
        gone.clear();
        (0..4).for_each(|_| {
            blocks.keep(address(99), KEPT_BLOCK, |block, size| gone.push((block, size)))
        });
        assert!(blocks.bytes <= KEPT_BYTES && !gone.is_empty(), "{gone:?}");
    }

    /// Blocks are freed by one thread and given back by another, whatever the others do.
    #[test]
    fn memory_is_given_back_by_another_thread() {
        std::thread::spawn(give_back);
        let work = |seed: usize| {
            let heap = Large(System);
            for round in 0..200 {
                let size = LARGE + (seed * 7919 + round * 104_729) % (3 * KEPT_BLOCK);
                let layout = Layout::from_size_align(size, 16).unwrap();
                // SAFETY: the block is used within its size, and freed once.
                unsafe {
                    let block = heap.alloc(layout);
                    assert!(!block.is_null());
                    block.write_bytes(seed as u8, 5000);
                    block.add(size - 1).write(seed as u8);
                    std::thread::yield_now();
                    let read = std::slice::from_raw_parts(block, 5000);
                    assert!(read.iter().all(|byte| *byte == seed as u8));
                    heap.dealloc(block, layout);
                }
            }
        };
        std::thread::scope(|scope| {
            (1..5).for_each(|seed| drop(scope.spawn(move || work(seed))));
        });
    }

    /// Grows and shrinks a block across the boundary, both ways, and looks at its bytes.
    #[test]
    fn a_block_keeps_its_bytes_whatever_becomes_of_its_size() {
        let heap = Large(System);
        let sizes =
            [10, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 5, 40 * LARGE, LARGE, 5000, LARGE];
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        // SAFETY: each block is used within its size, freed once, with the layout it has.
        unsafe {
            let mut block = heap.alloc(layout(sizes[0]));
            block.write_bytes(7, sizes[0]);
            for two in sizes.windows(2) {
                block = heap.realloc(block, layout(two[0]), two[1]);
                assert!(!block.is_null());
                let kept = std::slice::from_raw_parts(block, two[0].min(two[1]));
                assert!(kept.iter().all(|byte| *byte == 7), "{two:?}");
                block.write_bytes(7, two[1]);
            }
            heap.dealloc(block, layout(LARGE));
            let zero = heap.alloc_zeroed(layout(LARGE + 100));
            assert!(std::slice::from_raw_parts(zero, LARGE + 100).iter().all(|byte| *byte == 0));
            heap.dealloc(zero, layout(LARGE + 100));
        }
    }
}
