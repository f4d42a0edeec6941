//! Large values that another thread frees. To give 100 MB back to the system takes 10 ms.

/// Bytes of a value from which another thread frees it: some 0.4 milliseconds.
const LARGE: usize = 4 << 20;

/// Frees a value that has so many bytes, and maybe more: a large one in a thread of its own.
pub(super) fn free(value: impl Send + 'static, bytes: usize) {
    if bytes >= LARGE {
        free_elsewhere(value);
    }
}

/// Frees a value in a thread of its own; without one, here.
#[cold]
pub(super) fn free_elsewhere(value: impl Send + 'static) {
    let _ = std::thread::Builder::new().name("larder-free".to_owned()).spawn(move || drop(value));
}
