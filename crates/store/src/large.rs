//! Large blocks of a program's heap. Such a block is mapped by itself, and grows by having its
//! pages mapped elsewhere: a buffer that doubles is not copied, however long it is. An allocator
//! that copies a block of 20 MB holds its thread for milliseconds.

use std::alloc::{GlobalAlloc, Layout};

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// Bytes of a block from which on it is mapped by itself.
const LARGE: usize = 2 << 20;
/// The system maps at these boundaries at least.
const PAGE: usize = 4096;

/// An allocator that leaves all but large blocks to another.
#[derive(Debug)]
pub struct Large<A>(pub A);

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

// SAFETY: a large block is a mapping of its own from its first byte on, at least as long as its
// layout says, and private to its owner; the rest is the other allocator's. A block's layout says
// which of the two it is of, and callers pass the layout that the block has.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Large<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // New pages are zero.
            return map(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the mapping of this block, which nobody uses any more. It cannot fail for a
            // range that is mapped.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
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
            (true, true) => {
                // SAFETY: the mapping of this block; who owns the block knows no other address.
                let moved =
                    unsafe { mremap(block.cast(), layout.size(), size, MremapFlags::MAYMOVE) };
                moved.map_or(std::ptr::null_mut(), <*mut _>::cast)
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

/// A new mapping; null: there is no memory.
fn map(size: usize) -> *mut u8 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address the kernel picks aliases nothing.
    let block = unsafe {
        mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags)
    };
    block.map_or(std::ptr::null_mut(), <*mut _>::cast)
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

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
