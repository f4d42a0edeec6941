//! Large values that another thread frees. To give 100 MB back to the system takes 10 ms.

/// Frees a value in a thread of its own; without one, here.
#[cold]
pub(super) fn free_elsewhere(value: impl Send + 'static) {
    let _ = std::thread::Builder::new().name("larder-free".to_owned()).spawn(move || drop(value));
}
